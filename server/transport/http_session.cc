#include "server/transport/http_session.h"

#include <spdlog/spdlog.h>

#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <exception>
#include <string_view>
#include <utility>

namespace tandem::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr unsigned kHttp11 = 11;

constexpr std::chrono::seconds kDiscardTime{1};
constexpr size_t kDiscardStep = 4096;
constexpr size_t kDiscardBytes = size_t{1} << 20;

HttpReply ErrorReply(http::status status) {
  const beast::string_view reason = http::obsolete_reason(status);
  return {.status = static_cast<int>(status),
          .body = fmt::format("{}\n", std::string_view(reason.data(), reason.size()))};
}

// Errors of the parser, as opposed to those of the connection.
bool IsMalformed(const beast::error_code& error) {
  return error.category() == make_error_code(http::error::bad_version).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

std::string_view PathOf(beast::string_view target) {
  const std::string_view text(target.data(), target.size());
  return text.substr(0, text.find('?'));
}

}  // namespace

HttpSession::HttpSession(asio::ip::tcp::socket socket, HttpShared& shared)
    : shared_(shared), stream_(std::move(socket)), buffer_(2 * shared.options.max_header_bytes) {
  place_ = shared_.sessions.insert(shared_.sessions.end(), this);
}

HttpSession::~HttpSession() {
  if (place_) shared_.sessions.erase(*place_);
}

void HttpSession::GiveWay() {
  shared_.sessions.erase(*place_);
  place_.reset();
  stream_.close();
}

void HttpSession::WaitForPeer(std::chrono::milliseconds time) {
  stream_.expires_after(time);
  if (place_) shared_.sessions.splice(shared_.sessions.end(), shared_.sessions, *place_);
}

void HttpSession::Read() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(shared_.options.max_header_bytes));
  parser_->body_limit(0);
  WaitForPeer(shared_.options.timeout);
  http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](beast::error_code error, size_t) { self->OnRead(error); });
}

void HttpSession::OnRead(beast::error_code error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Write(MakeResponse(ErrorReply(http::status::request_header_fields_too_large), false));
  }
  if (error == http::error::body_limit) {
    return Write(MakeResponse(ErrorReply(http::status::payload_too_large), false));
  }
  if (IsMalformed(error)) {
    return Write(MakeResponse(ErrorReply(http::status::bad_request), false));
  }
  if (error) return Close();
  const bool has_body = parser_->chunked() || parser_->content_length().value_or(0) > 0;
  if (has_body) return Write(MakeResponse(ErrorReply(http::status::payload_too_large), false));
  Write(Answer());
}

HttpSession::Response HttpSession::Answer() const {
  const auto& request = parser_->get();
  const bool is_head = request.method() == http::verb::head;
  HttpReply reply;
  if (request.method() != http::verb::get && !is_head) {
    reply = ErrorReply(http::status::method_not_allowed);
  } else {
    try {
      std::optional<HttpReply> found = shared_.routes(PathOf(request.target()));
      reply = found ? *std::move(found) : ErrorReply(http::status::not_found);
    } catch (const std::exception& e) {
      spdlog::error("http: exception: {}", e.what());
      reply = ErrorReply(http::status::internal_server_error);
    }
  }
  Response response = MakeResponse(reply, request.keep_alive());
  if (response.result() == http::status::method_not_allowed) {
    response.set(http::field::allow, "GET, HEAD");
  }
  if (is_head) response.body().clear();  // Content-Length stays the body's.
  return response;
}

HttpSession::Response HttpSession::MakeResponse(const HttpReply& reply, bool keep_alive) const {
  const unsigned version = parser_->is_header_done() ? parser_->get().version() : kHttp11;
  Response response(static_cast<http::status>(reply.status), version);
  response.set(http::field::server, "tandem");
  response.set(http::field::content_type, reply.content_type);
  response.set(http::field::cache_control, "no-store");
  response.keep_alive(keep_alive);
  response.body() = reply.body;
  response.prepare_payload();
  return response;
}

void HttpSession::Write(Response response) {
  response_.emplace(std::move(response));
  WaitForPeer(shared_.options.timeout);
  http::async_write(stream_, *response_,
                    [self = shared_from_this()](beast::error_code error, size_t) {
                      if (error || self->response_->need_eof()) return self->Close();
                      self->Read();
                    });
}

void HttpSession::Close() {
  beast::error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  if (ignored) return;
  WaitForPeer(kDiscardTime);
  Discard();
}

void HttpSession::Discard() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(kDiscardStep),
                          [self = shared_from_this()](beast::error_code error, size_t bytes) {
                            self->discarded_ += bytes;
                            if (!error && self->discarded_ < kDiscardBytes) self->Discard();
                          });
}

}  // namespace tandem::server
