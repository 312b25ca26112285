// These are requests and answers as handlers see them, without sockets.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire::server {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

// Returns the first header of that name (case-insensitive).
std::optional<std::string_view> find_header(const HeaderList& headers, std::string_view name);
bool equals_ignoring_case(std::string_view a, std::string_view b);

struct HttpRequest {
  std::string method;
  std::string target;  // in origin form, as sent: path and query, percent-encoded
  std::string path;    // percent-decoded, without the query
  std::string query;   // as sent
  int version = 11;    // 10 or 11
  bool keep_alive = true;
  HeaderList headers;
  std::string body;

  std::optional<std::string_view> header(std::string_view name) const {
    return find_header(headers, name);
  }
};

struct HttpResponse {
  int status = 200;
  std::string content_type;  // empty: none is sent
  std::string body;
  HeaderList headers;
};

void append_headers(HttpResponse& response, const HeaderList& headers);
std::string_view reason_phrase(int status);
// Reads the target of a request line into the target, path and query of a request. Returns
// false when it is neither in origin form nor in absolute form.
bool read_target(std::string_view target, HttpRequest& request);

struct HeadOptions {
  int version = 11;
  bool keep_alive = true;
  std::optional<uint64_t> content_length;  // absent: chunked (1.1) or until close (1.0)
  std::string date;                        // value of the Date header; empty: there is none
};
// Returns a time in the form of the Date header (RFC 9110, section 5.6.7).
std::string http_date(std::time_t unix_time_s);
// Returns the status line and headers up to the empty line. Header values are stripped of control
// characters.
std::string response_head(const HttpResponse& response, const HeadOptions& options);

// An OngoingCall goes on after its handler has returned. All calls come on the connection's strand.
class OngoingCall {
 public:
  virtual ~OngoingCall() = default;
  virtual void on_writable() = 0;    // the write buffer has room again
  virtual void on_disconnect() = 0;  // the client left: abort; the reply must not be used
};

// A ReplyChannel is the way back to the client. Each request gets one answer: send(), or
// begin_stream(), write()… and end_stream(), or cut() when an answer that has begun cannot be
// finished. All methods but poster()'s function must be called on the strand.
class ReplyChannel {
 public:
  virtual ~ReplyChannel() = default;
  virtual void send(HttpResponse response) = 0;
  virtual void begin_stream(HttpResponse head) = 0;
  virtual void write(std::string_view data) = 0;
  virtual void end_stream() = 0;
  // Ends the answer without the end that its framing promises, so that no client takes it for
  // complete.
  virtual void cut(const std::string& why) = 0;
  virtual bool wants_more() const = 0;  // the write buffer is below its limit
  // Keeps `call` alive until the answer is complete or the client has left.
  virtual void attach(std::shared_ptr<OngoingCall> call) = 0;
  // Returns a function that runs its argument on the strand of this connection. Any thread may call
  // that function. After the server has stopped, the work is dropped.
  virtual std::function<void(std::function<void()>)> poster() = 0;
};

}  // namespace quire::server
