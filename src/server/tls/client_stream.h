// ClientStream is the byte stream of one client, with or without TLS.
#pragma once

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/tls/tls_context.h"

namespace quire::server {

// It runs at most one read and one write at a time. All calls and handlers are on the socket's
// executor; handlers must keep the stream alive.
class ClientStream {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using ErrorCode = boost::system::error_code;

  // Without a `tls` the stream is not encrypted.
  ClientStream(Socket socket, TlsContext tls)
      : socket_(std::move(socket)), context_(std::move(tls)) {
    if (context_ != nullptr) tls_.emplace(socket_, *context_);
  }

  auto get_executor() { return socket_.get_executor(); }

  // Runs the TLS handshake. It must be the first call, and only when is_encrypted(). A client that
  // sends plain HTTP gets `refusal` as it is, and the handler an error.
  template <typename Handler>
  void async_handshake(std::string refusal, Handler handler) {
    socket_.async_wait(Socket::wait_read, [this, refusal = std::move(refusal),
                                           handler = std::move(handler)](ErrorCode ec) mutable {
      if (!ec && speaks_plainly()) return refuse(std::move(refusal), std::move(handler));
      if (ec) return handler(ec);
      tls_->async_handshake(boost::asio::ssl::stream_base::server, std::move(handler));
    });
  }
  bool is_encrypted() const { return tls_.has_value(); }

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler handler) {
    if (tls_) return tls_->async_read_some(buffers, std::move(handler));
    socket_.async_read_some(buffers, std::move(handler));
  }
  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler handler) {
    if (tls_) return tls_->async_write_some(buffers, std::move(handler));
    socket_.async_write_some(buffers, std::move(handler));
  }

  // Ends the sending side; `keep_alive` is held until that is done. No write may be running.
  template <typename Owner>
  void end_writing(std::shared_ptr<Owner> keep_alive) {
    if (tls_) {
      tls_->async_shutdown([keep_alive = std::move(keep_alive)](const ErrorCode&) {});
      return;
    }
    ErrorCode ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
  }
  void close() {
    ErrorCode ignored;
    socket_.close(ignored);
  }

 private:
  // The first byte of a handshake is 22; that of every HTTP method is a letter.
  bool speaks_plainly() {
    std::array<char, 1> first{};
    ErrorCode ec;
    const size_t n =
        socket_.receive(boost::asio::buffer(first), boost::asio::socket_base::message_peek, ec);
    return n == 1 && first[0] >= 'A' && first[0] <= 'z';
  }
  template <typename Handler>
  void refuse(std::string refusal, Handler handler) {
    auto text = std::make_shared<std::string>(std::move(refusal));
    boost::asio::async_write(
        socket_, boost::asio::buffer(*text),
        [this, text, handler = std::move(handler)](ErrorCode ec, size_t) mutable {
          if (ec) return handler(ec);
          socket_.shutdown(Socket::shutdown_send, ec);
          discard(std::move(handler));
        });
  }
  // Reads what the client still sends until it closes. A socket that is closed with unread bytes is
  // reset, and the client may then lose the answer.
  template <typename Handler>
  void discard(Handler handler) {
    socket_.async_read_some(boost::asio::buffer(discarded_),
                            [this, handler = std::move(handler)](ErrorCode ec, size_t) mutable {
                              if (ec) return handler(ec);
                              discard(std::move(handler));
                            });
  }

  Socket socket_;
  TlsContext context_;
  std::array<char, 512> discarded_{};
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;  // borrows socket_ and context_
};

}  // namespace quire::server
