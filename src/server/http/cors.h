// Which pages of other origins a browser lets read our answers (the CORS protocol of the Fetch
// standard).
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
  // it has none.
  HeaderList answer_headers(const HttpRequest& request) const;
  // Returns what a preflight is told besides. `route_methods` are the methods of the route, "GET,
  // POST".
  HeaderList preflight_headers(const HttpRequest& request, const std::string& route_methods) const;

 private:
  const CorsOptions options_;
  const bool any_origin_, local_origins_, any_method_, any_header_;
};

// Whether a page of `origin` comes from this machine: http or https on localhost, 127.0.0.1 or
// [::1], any port.
bool is_local_origin(std::string_view origin);

}  // namespace quire::server
