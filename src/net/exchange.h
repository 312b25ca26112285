// exchange() sends one request to a server over HTTP, with or without TLS, and passes on the answer
// as it comes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "net/tls_trust.h"
#include "net/url.h"

namespace quire::net {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method = "GET";
  HeaderList headers = {};
  std::string body = {};
};

struct AnswerHead {
  int status = 0;
  HeaderList headers;
  std::optional<uint64_t> length;  // of the body, if the server says it

  // Returns the first header of that name, in any case; empty: there is none.
  std::string_view header(std::string_view name) const;
};

// Gets the answer as it comes. When a function returns an error, the exchange ends with that error.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  virtual Status on_head(const AnswerHead& head) = 0;
  virtual Status on_body(std::string_view piece) = 0;
};

struct ExchangeOptions {
  TlsTrust trust = nullptr;             // for https; null: an https URL is refused
  int64_t connect_timeout_ms = 10'000;  // for each of: name lookup, connecting, TLS handshake
  int64_t quiet_timeout_ms = 30'000;    // for each of: request, head, each piece of the body
  int64_t total_timeout_ms = 0;         // for the whole exchange; 0: no limit
  // Called at least ten times a second on the calling thread. When it returns true, the exchange
  // ends. It may be empty.
  std::function<bool()> is_stopped = {};
};

// Blocks until the whole answer has come, and then closes the connection. An answer with any status
// is a success. kUnavailable: there was no connection, no trusted certificate, or no whole answer
// in time. kCancelled: is_stopped() returned true.
Status exchange(const Url& url, const Request& request, const ExchangeOptions& options,
                AnswerSink& sink);

// Returns the body of an answer with status 2xx, which may have at most `max_bytes`. kNotFound: the
// status is 404. kInvalidArgument: it is another 4xx. kUnavailable: it is any other status.
Result<std::string> ask(const Url& url, const Request& request, const ExchangeOptions& options,
                        size_t max_bytes = size_t{16} << 20);

// Returns the error that ask() returns for a status that is not 2xx.
Status status_error(const Url& url, int status);

}  // namespace quire::net
