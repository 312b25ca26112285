// One HTTP exchange with a backend: sends a request whole and hands the answer on as it comes,
// without keeping it. It is used on the gateway's thread alone.
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

// Told of what comes back. After on_end() or on_failure() nothing is told any more.
class BackendListener {
 public:
  virtual ~BackendListener() = default;
  // `length` is that of the body, when the backend says it.
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

  // `scratch` is shared by all calls of one thread and holds what one of them has just read.
  BackendCall(const boost::asio::any_io_executor& executor, std::shared_ptr<Backend> backend,
              std::shared_ptr<BackendListener> listener, std::span<char> scratch, Options options);

  // Starts the call. `request` is head and body as they go over the wire.
  void start(std::string request);
  void resume();
  void cancel();

 private:
  using Parser = boost::beast::http::response_parser<boost::beast::http::buffer_body>;

  void connect();
  void send();
  void read();
  void on_readable();
  // False: the call has ended.
  bool take(std::string_view bytes);
  void tell_head();
  void finish();
  void fail(const std::string& why);

  const std::shared_ptr<Backend> backend_;     // shared with the set of backends
  std::shared_ptr<BackendListener> listener_;  // shared with the client's connection; null: ended
  const std::span<char> scratch_;
  const Options options_;
  Tcp::socket socket_;
  boost::asio::steady_timer timer_;
  std::string request_;
  std::optional<Parser> parser_;
  std::string unparsed_;  // the beginning of a head, or of a chunk's
  bool is_reused_ = false;
  bool has_bytes_ = false;  // of the answer
  bool has_told_head_ = false;
  bool is_waiting_ = false;  // for the socket to be readable
};

}  // namespace quire::gateway
