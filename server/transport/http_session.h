// One connection of the HTTP server.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "server/transport/http_server.h"

namespace tandem::server {

class HttpSession;

// What connections share; used on the server's thread only.
struct HttpShared {
  HttpServerOptions options;
  HttpRoutes routes;
  // Those that have a place. Each waits for its peer; who has waited longest comes first.
  std::list<HttpSession*> sessions;
};

// Reads requests and answers them, one after the other, until the peer closes, is too slow or sends
// what cannot be understood. Lives as long as one of its operations is under way.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(boost::asio::ip::tcp::socket socket, HttpShared& shared);
  ~HttpSession();

  void Start() { Read(); }
  // Leaves its place to another connection and ends. Called once, while it has a place.
  void GiveWay();

 private:
  using Response = boost::beast::http::response<boost::beast::http::string_body>;

  // The peer has `time` from now on for what comes next.
  void WaitForPeer(std::chrono::milliseconds time);
  void Read();
  void OnRead(boost::beast::error_code error);
  // The answer to the request that was read.
  Response Answer() const;
  Response MakeResponse(const HttpReply& reply, bool keep_alive) const;
  void Write(Response response);
  // Sends the end, then reads what still comes for a while: closing with unread bytes would take
  // the answer back.
  void Close();
  void Discard();

  HttpShared& shared_;
  std::optional<std::list<HttpSession*>::iterator> place_;  // nothing once it gave way
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::empty_body>> parser_;
  std::optional<Response> response_;
  size_t discarded_ = 0;
};

}  // namespace tandem::server
