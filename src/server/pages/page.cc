#include "server/pages/page.h"

#include <algorithm>
#include <utility>

#include "server/json/plain_json.h"
#include "server/openai/request_fields.h"

namespace quire::server {

HttpResponse json_page(const boost::json::value& value) {
  return {200, "application/json", plain_json(value), {}};
}

HttpResponse with_warning(HttpResponse response, const std::string& warning) {
  if (!warning.empty()) response.headers.emplace_back(kWarningHeader, warning);
  return response;
}

ApiResult<std::string> check_names(const boost::json::object& body,
                                   std::span<const std::string_view> known, bool strict) {
  UnknownFields unknown(strict);
  for (const auto& member : body) {
    const std::string_view name{member.key().data(), member.key().size()};
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (ApiCheck error = unknown.add(name)) return *error;
  }
  return unknown.warning();
}

}  // namespace quire::server
