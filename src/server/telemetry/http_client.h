// One request to a server over HTTP, with an end in time.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "server/http/http_types.h"

namespace quire::server {

struct HttpTarget {
  const std::string& host;
  const std::string& port;
  const std::string& target;
};

// The body of the answer. `request` gives the method, headers and body. kUnavailable: nobody answers
// within the time; kNotFound, kInvalidArgument: the answer's status is 404, or another of 4xx;
// kUnavailable: or another that is not 2xx.
Result<std::string> ask_server(const HttpTarget& to, HttpRequest request, int64_t timeout_ms);

}  // namespace quire::server
