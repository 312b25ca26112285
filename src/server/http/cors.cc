#include "server/http/cors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace quire::server {
namespace {

bool contains(const std::vector<std::string>& list, std::string_view entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

}  // namespace

bool is_local_origin(std::string_view origin) {
  const size_t scheme_end = origin.find("://");
  if (scheme_end == std::string_view::npos) return false;
  const std::string_view scheme = origin.substr(0, scheme_end);
  if (scheme != "http" && scheme != "https") return false;
  const std::string_view authority = origin.substr(scheme_end + 3);
  for (const std::string_view host : {"localhost", "127.0.0.1", "[::1]"}) {
    if (!authority.starts_with(host)) continue;
    const std::string_view port = authority.substr(host.size());
    if (port.empty()) return true;
    return port.size() > 1 && port.front() == ':' &&
           port.find_first_not_of("0123456789", 1) == std::string_view::npos;
  }
  return false;
}

CorsPolicy::CorsPolicy(CorsOptions options)
    : options_(std::move(options)),
      any_origin_(contains(options_.allowed_origins, "*")),
      local_origins_(contains(options_.allowed_origins, "local")),
      any_method_(contains(options_.allowed_methods, "*")),
      any_header_(contains(options_.allowed_headers, "*")) {}

HeaderList CorsPolicy::answer_headers(const HttpRequest& request) const {
  HeaderList headers;
  // Caches must not give one origin's answer to another.
  if (!any_origin_ || options_.allow_credentials) headers.emplace_back("Vary", "Origin");
  const auto origin = request.header("Origin");
  if (!origin) return headers;
  const bool allowed = any_origin_ || (local_origins_ && is_local_origin(*origin)) ||
                       contains(options_.allowed_origins, *origin);
  if (!allowed) return headers;
  // Browsers refuse "*" when a request carries cookies or the browser's own credentials.
  const bool name_it = !any_origin_ || options_.allow_credentials;
  headers.emplace_back("Access-Control-Allow-Origin", name_it ? std::string(*origin) : "*");
  if (options_.allow_credentials) headers.emplace_back("Access-Control-Allow-Credentials", "true");
  return headers;
}

HeaderList CorsPolicy::preflight_headers(const HttpRequest& request,
                                         const std::string& route_methods) const {
  const auto wanted = request.header("Access-Control-Request-Headers");
  const std::string any_headers = wanted ? std::string(*wanted) : "Authorization, Content-Type";
  return {
      {"Access-Control-Allow-Methods",
       any_method_ ? route_methods : fmt::format("{}", fmt::join(options_.allowed_methods, ", "))},
      {"Access-Control-Allow-Headers",
       any_header_ ? any_headers : fmt::format("{}", fmt::join(options_.allowed_headers, ", "))},
      {"Access-Control-Max-Age", "600"}};
}

}  // namespace quire::server
