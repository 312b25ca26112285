// HttpRequestReader turns bytes into HTTP/1.x requests. It has no socket, and any split of the
// input gives the same requests.
//
//   reader.append(bytes);
//   switch (reader.advance()) {
//     case kNeedMore: …
//     case kHeader: …
//     case kComplete: take();
//     case kError: error_status();
//   }
//
// One thread may use it. The bytes of at most one request are parsed at a time; later bytes stay
// buffered until take().
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "server/http/http_types.h"
#include "server/http/server_options.h"

namespace quire::server {

class HttpRequestReader {
 public:
  enum class State {
    kNeedMore,  // call append() and advance() again
    kHeader,    // head() is valid, the body is not; returned once per request
    kComplete,  // call take()
    kError,     // error_status() is the answer's; the connection cannot go on
  };

  explicit HttpRequestReader(const ServerLimits& limits);
  ~HttpRequestReader();
  HttpRequestReader(const HttpRequestReader&) = delete;
  HttpRequestReader& operator=(const HttpRequestReader&) = delete;

  void append(std::string_view bytes);
  State advance();

  // Returns everything but the body. It is valid from kHeader on.
  const HttpRequest& head() const { return request_; }
  bool expects_continue() const { return expects_continue_; }
  // Returns the finished request; the reader starts on the next one. Precondition: the last
  // advance() gave kComplete.
  HttpRequest take();

  int error_status() const { return error_status_; }
  std::string_view error_message() const { return error_message_; }

  // Returns whether bytes of the current request have arrived.
  bool started() const;
  size_t buffered_bytes() const;
  uint64_t held_bytes() const;  // memory of the current request and of later bytes

 private:
  State fail(int status, std::string message);
  State read_head();
  State check_framing(size_t num_unfinished_bytes);
  bool has_one_host() const;

  struct Parser;
  const ServerLimits limits_;
  std::unique_ptr<Parser> parser_;
  std::string buffer_;
  size_t consumed_ = 0;  // bytes of buffer_
  HttpRequest request_;
  bool head_reported_ = false;
  bool expects_continue_ = false;
  bool waits_in_chunk_header_ = false;
  int error_status_ = 0;
  std::string error_message_;
};

}  // namespace quire::server
