// One request to a server over HTTP, encrypted or not, and its answer as it comes.
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
  std::optional<uint64_t> length;  // of the body, where the server says it

  // The first of that name, in any case; empty: there is none.
  std::string_view header(std::string_view name) const;
};

// Told of what comes. An error that it returns ends the exchange, whose error that then is.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  virtual Status on_head(const AnswerHead& head) = 0;
  virtual Status on_body(std::string_view piece) = 0;
};

struct ExchangeOptions {
  TlsTrust trust = nullptr;             // for https; null: an https URL is refused
  int64_t connect_timeout_ms = 10'000;  // until the server may be spoken to
  int64_t quiet_timeout_ms = 30'000;    // without a byte from it, or one that it takes
  int64_t total_timeout_ms = 0;         // of all together; 0: none
  // Asked ten times a second, on the calling thread; true ends the exchange. Empty: never.
  std::function<bool()> is_stopped = {};
};

// Blocks until the whole answer has come; the connection is then closed. An answer with any status is
// one. kUnavailable: there is no connection, no certificate that is believed, or no whole answer in
// time. kCancelled: is_stopped().
Status exchange(const Url& url, const Request& request, const ExchangeOptions& options,
                AnswerSink& sink);

// The body of an answer of 2xx with at most `max_bytes`. kNotFound, kInvalidArgument: its status is
// 404, or another of 4xx; kUnavailable: or another.
Result<std::string> ask(const Url& url, const Request& request, const ExchangeOptions& options,
                        size_t max_bytes = size_t{16} << 20);

// The error of a status that is not 2xx, as ask() says it.
Status status_error(const Url& url, int status);

}  // namespace quire::net
