// A BackendCall is one HTTP exchange with a backend. It sends a request as a whole and passes the
// answer on as it comes, without storing it. It is used on the gateway's thread only.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gateway/backend.h"
#include "server/http/http_types.h"

namespace quire::gateway {

// Gets the answer of a call. After on_end() or on_failure() no more functions are called.
class BackendListener {
 public:
  virtual ~BackendListener() = default;
  // `length` is the length of the body, if the backend says it.
  virtual void on_head(server::HttpResponse head, std::optional<uint64_t> length) = 0;
  virtual void on_body(std::string_view piece) = 0;
  virtual void on_end() = 0;
  virtual void on_failure(const std::string& why) = 0;
  // Returns false to stop reading until resume().
  virtual bool wants_more() const = 0;
};

class BackendCall final : public std::enable_shared_from_this<BackendCall> {
 public:
  struct Options {
    std::chrono::milliseconds connect_timeout{2'000};
    std::chrono::milliseconds answer_timeout{0};  // until the end of the answer; 0: none
    bool is_head = false;                         // the answer to HEAD has no body
  };

  // All calls of one thread share `scratch`, which holds the bytes that a call has just read.
  BackendCall(const boost::asio::any_io_executor& executor, std::shared_ptr<Backend> backend,
              std::shared_ptr<BackendListener> listener, std::span<char> scratch, Options options);

  // Starts the call. `request` is the head and the body as they are sent.
  void start(std::string request);
  void resume();
  void cancel();

 private:
  using Parser = boost::beast::http::response_parser<boost::beast::http::buffer_body>;

  void connect();
  void send();
  void read();
  void on_readable();
  // Returns false when the call has ended.
  bool take(std::string_view bytes);
  void tell_head();
  void finish();
  // Ends the call or, when a reused connection was closed, starts it again on a new one.
  void on_broken(const boost::system::error_code& ec);
  void fail(const std::string& why);

  const std::shared_ptr<Backend> backend_;     // shared with the BackendSet
  std::shared_ptr<BackendListener> listener_;  // shared with the client's connection; null: ended
  const std::span<char> scratch_;
  const Options options_;
  Tcp::socket socket_;
  boost::asio::steady_timer timer_;
  std::string request_;
  std::optional<Parser> parser_;
  std::string unparsed_;  // the beginning of a head, or of a chunk's head
  bool is_reused_ = false;
  bool has_bytes_ = false;  // bytes of the answer have come
  bool has_told_head_ = false;
  bool is_waiting_ = false;  // until the socket is readable
};

}  // namespace quire::gateway
