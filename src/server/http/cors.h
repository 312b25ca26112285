// CorsPolicy decides which web pages of other origins may read the server's answers (the CORS
// protocol of the Fetch standard).
#pragma once

#include <string>
#include <string_view>

#include "server/http/http_types.h"
#include "server/http/server_options.h"

namespace quire::server {

// A policy does not change after it is made, so any thread may use it.
class CorsPolicy {
 public:
  explicit CorsPolicy(CorsOptions options);
  // Returns the headers for any answer to `request`; none when its origin is not allowed, or when
  // it has no origin.
  HeaderList answer_headers(const HttpRequest& request) const;
  // Returns the headers that the answer to a preflight has in addition. `route_methods` are the
  // route's methods, such as "GET, POST".
  HeaderList preflight_headers(const HttpRequest& request, const std::string& route_methods) const;

 private:
  const CorsOptions options_;
  const bool any_origin_, local_origins_, any_method_, any_header_;
};

// Returns whether `origin` is this machine: http or https on localhost, 127.0.0.1 or [::1], any
// port.
bool is_local_origin(std::string_view origin);

}  // namespace quire::server
