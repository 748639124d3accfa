#include "server/transport/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <string>
#include <vector>

#include "server/transport/health_routes.h"
#include "tests/server/transport/fake_backend.h"

namespace tandem::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A connection that gives up after 20 s.
class Client {
 public:
  explicit Client(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval limit{.tv_sec = 20};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<size_t>(n);
    }
  }
  // Everything until the server closes.
  std::string ReadAll() {
    std::string all;
    char block[4096];
    for (ssize_t n = 0; (n = recv(fd_, block, sizeof(block), 0)) > 0;) {
      all.append(block, static_cast<size_t>(n));
    }
    return all;
  }
  // True once the server has closed, with nothing left to read.
  bool IsClosed() {
    char c = 0;
    const ssize_t n = recv(fd_, &c, 1, 0);
    return n == 0 || (n < 0 && errno == ECONNRESET);
  }
  // One answer with a body, which the connection survives.
  std::string ReadAnswer() {
    std::string answer;
    char c = 0;
    while (answer.find("\r\n\r\n") == std::string::npos && recv(fd_, &c, 1, 0) == 1) answer += c;
    const size_t length = answer.find("Content-Length: ");
    for (int left = std::stoi(answer.substr(length + 16)); left > 0; --left) {
      if (recv(fd_, &c, 1, 0) == 1) answer += c;
    }
    return answer;
  }

 private:
  const int fd_;
};

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    backend_.Add(MakeServed("m", {}, 0));
    Listen({.address = "127.0.0.1"});
  }

  void Listen(const HttpServerOptions& options) {
    auto server = HttpServer::Listen(options, HealthRoutes(backend_));
    CHECK(server.ok(), "{}", Message(server.status()));
    server_ = *std::move(server);
  }

  // The answer to one request; the server must close after it.
  std::string Ask(const std::string& bytes) {
    Client client(server_->port());
    client.Send(bytes);
    return client.ReadAll();
  }
  std::string Get(const std::string& path) {
    return Ask("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }

  FakeBackend backend_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, HealthFollowsTheBackend) {
  EXPECT_THAT(Get("/v2/health/live"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(Get("/v2/health/ready?verbose=1"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(Get("/v2/models/m/ready"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get("/v2/models/m/versions/3/ready"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get("/v2/models/m/versions/4/ready"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Get("/v2/models/loading/ready"), StartsWith("HTTP/1.1 503"));
  backend_.state_ = ServerState::kDraining;
  EXPECT_THAT(Get("/v2/health/live"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get("/v2/health/ready"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get("/v2/models/m/ready"), StartsWith("HTTP/1.1 503"));
}

TEST_F(HttpServerTest, UnknownPathsAre404) {
  for (const char* path : {"/", "/v2/health/live/", "/v2/models/m", "/v2/models/nobody/ready",
                           "/../../etc/passwd", "/v2/models/../ready", "*"}) {
    EXPECT_THAT(Get(path), StartsWith("HTTP/1.1 404 Not Found")) << path;
  }
}

TEST_F(HttpServerTest, OtherMethodsAre405) {
  for (const char* method : {"POST", "PUT", "DELETE", "TRACE", "OPTIONS", "PATCH", "MADEUP"}) {
    const std::string answer =
        Ask(std::string(method) + " /v2/health/live HTTP/1.1\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 405 Method Not Allowed")) << method;
    EXPECT_THAT(answer, HasSubstr("Allow: GET, HEAD"));
  }
}

TEST_F(HttpServerTest, HeadHasTheHeaderOfGetAndNoBody) {
  const std::string get = Get("/v2/health/live");
  const std::string head = Ask("HEAD /v2/health/live HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(head + "ok\n", get);
  EXPECT_THAT(head, HasSubstr("Content-Length: 3\r\n"));
}

TEST_F(HttpServerTest, MalformedRequestsAre400) {
  for (const char* bytes :
       {"GET /v2/health/live\r\n\r\n", "nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n", "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"}) {
    EXPECT_THAT(Ask(bytes), StartsWith("HTTP/1.1 400 Bad Request")) << bytes;
  }
}

TEST_F(HttpServerTest, BodiesAreRefused) {
  const std::string start = "POST /v2/health/live HTTP/1.1\r\n";
  const std::string large(100'000, 'x');
  EXPECT_THAT(Ask(start + "Content-Length: 100000\r\n\r\n" + large), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Ask(start + "Content-Length: 99999999999999999999\r\n\r\n"),
              StartsWith("HTTP/1.1 4"));
  EXPECT_THAT(Ask(start + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx"), StartsWith("HTTP/1.1 413"));
}

TEST_F(HttpServerTest, LongHeadersAre431) {
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\nX: " + std::string(9000, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(Ask("GET /" + std::string(100'000, 'x') + " HTTP/1.1\r\n\r\n"),
              StartsWith("HTTP/1.1 431"));
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 100'000; ++i) many += "a: b\r\n";
  EXPECT_THAT(Ask(many + "\r\n"), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(Get("/" + std::string(7000, 'x')), StartsWith("HTTP/1.1 404"));
}

TEST_F(HttpServerTest, AConnectionServesRequestsOneAfterTheOther) {
  Client client(server_->port());
  const std::string request = "GET /v2/health/live HTTP/1.1\r\n\r\n";
  client.Send(request);
  EXPECT_THAT(client.ReadAnswer(), EndsWith("\r\n\r\nok\n"));
  client.Send(request + request);
  EXPECT_THAT(client.ReadAnswer(), EndsWith("\r\n\r\nok\n"));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("\r\n\r\nok\n"));
}

TEST_F(HttpServerTest, Http10ClosesAfterTheAnswer) {
  EXPECT_THAT(Ask("GET /v2/health/live HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.0 200 OK"));
}

TEST_F(HttpServerTest, SlowAndSilentConnectionsAreClosed) {
  Listen({.address = "127.0.0.1", .timeout = std::chrono::milliseconds(50)});
  Client silent(server_->port());
  Client slow(server_->port());
  slow.Send("GET / HTTP/1.1\r\nX-Slow: ");
  EXPECT_EQ(silent.ReadAll(), "");
  EXPECT_EQ(slow.ReadAll(), "");
}

TEST_F(HttpServerTest, SilentConnectionsBeyondTheLimitShutNobodyOut) {
  Listen({.address = "127.0.0.1", .timeout = std::chrono::hours(1)});
  std::deque<Client> silent;
  for (int i = 0; i < 64; ++i) silent.emplace_back(server_->port());
  EXPECT_THAT(Get("/v2/health/live"), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_TRUE(silent.front().IsClosed());
}

TEST_F(HttpServerTest, TheConnectionThatHasWaitedLongestGivesWay) {
  Listen({.address = "127.0.0.1", .max_connections = 2, .timeout = std::chrono::hours(1)});
  const std::string request = "GET /v2/health/live HTTP/1.1\r\n\r\n";
  Client first(server_->port());
  first.Send(request);
  EXPECT_THAT(first.ReadAnswer(), HasSubstr("200 OK"));
  Client slow(server_->port());
  slow.Send(request);
  EXPECT_THAT(slow.ReadAnswer(), HasSubstr("200 OK"));
  slow.Send("GET / HTTP/1.1\r\nX-Slow: ");
  // The first is now the one that was heard last.
  first.Send(request);
  EXPECT_THAT(first.ReadAnswer(), HasSubstr("200 OK"));
  Client third(server_->port());
  third.Send(request);
  EXPECT_THAT(third.ReadAnswer(), HasSubstr("200 OK"));
  EXPECT_TRUE(slow.IsClosed());
  for (Client* client : {&first, &third}) {
    client->Send(request);
    EXPECT_THAT(client->ReadAnswer(), HasSubstr("200 OK"));
  }
}

TEST_F(HttpServerTest, MetricsAreServedUnderTheirPathAlone) {
  auto server = HttpServer::Listen({.address = "127.0.0.1"},
                                   MetricsRoutes([] { return "up 1\n"; }, "text/plain; v=1"));
  ASSERT_TRUE(server.ok());
  server_ = *std::move(server);
  EXPECT_THAT(Get("/metrics"), EndsWith("\r\n\r\nup 1\n"));
  EXPECT_THAT(Get("/metrics"), HasSubstr("Content-Type: text/plain; v=1\r\n"));
  EXPECT_THAT(Get("/"), StartsWith("HTTP/1.1 404"));
}

TEST_F(HttpServerTest, ARouteThatThrowsIs500AndSaysNothing) {
  auto server = HttpServer::Listen(
      {.address = "127.0.0.1"},
      [](std::string_view) -> std::optional<HttpReply> { throw std::runtime_error("secret"); });
  ASSERT_TRUE(server.ok());
  server_ = *std::move(server);
  EXPECT_THAT(Get("/"), StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(Get("/"), Not(HasSubstr("secret")));
}

TEST_F(HttpServerTest, APortInUseIsNamed) {
  const auto second =
      HttpServer::Listen({.address = "127.0.0.1", .port = server_->port()}, HealthRoutes(backend_));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(Message(second.status()),
            fmt::format("cannot listen on 127.0.0.1:{}: Address already in use", server_->port()));
}

}  // namespace
}  // namespace tandem::server
