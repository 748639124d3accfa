#include "server/transport/http_server.h"

#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <thread>
#include <utility>

#include "server/transport/address.h"
#include "server/transport/http_session.h"

namespace tandem::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// Pause after an accept that failed, for want of descriptors most likely.
constexpr std::chrono::milliseconds kAcceptPause{100};

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpServerOptions& options, HttpRoutes routes)
      : shared_{.options = options, .routes = std::move(routes)},
        acceptor_(context_),
        pause_(context_) {}

  ~Impl() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Status Listen() {
    const HttpServerOptions& options = shared_.options;
    RETURN_IF_ERROR(CheckCanListen(options.address, options.port));
    boost::system::error_code error;
    Open(error);
    if (error) {
      return Unavailable("cannot listen on {}: {}", HostPort(options.address, options.port),
                         error.message());
    }
    port_ = acceptor_.local_endpoint().port();
    Accept();
    thread_ = std::thread([this] { Run(); });
    return absl::OkStatus();
  }

  int port() const { return port_; }

 private:
  void Open(boost::system::error_code& error) {
    tcp::resolver resolver(context_);
    const auto found =
        resolver.resolve(shared_.options.address, std::to_string(shared_.options.port),
                         tcp::resolver::passive, error);
    if (error) return;
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (error) return;
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  }

  void Run() {
    while (!context_.stopped()) {
      try {
        context_.run();
      } catch (const std::exception& e) {
        spdlog::error("http: exception: {}", e.what());
      }
    }
  }

  void Accept() {
    acceptor_.async_accept([this](boost::system::error_code error, tcp::socket socket) {
      if (error) {
        pause_.expires_after(kAcceptPause);
        return pause_.async_wait([this](boost::system::error_code) { Accept(); });
      }
      if (shared_.sessions.size() >= shared_.options.max_connections) {
        shared_.sessions.front()->GiveWay();
      }
      std::make_shared<HttpSession>(std::move(socket), shared_)->Start();
      Accept();
    });
  }

  HttpShared shared_;  // outlives the sessions that the context's destructor ends
  asio::io_context context_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::thread thread_;
  int port_ = 0;
};

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(const HttpServerOptions& options,
                                                         HttpRoutes routes) {
  auto impl = std::make_unique<Impl>(options, std::move(routes));
  RETURN_IF_ERROR(impl->Listen());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

int HttpServer::port() const { return impl_->port(); }

}  // namespace tandem::server
