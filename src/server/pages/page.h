// These functions are shared by the pages.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <span>
#include <string>
#include <string_view>

#include "server/http/api_error.h"
#include "server/http/http_types.h"

namespace quire::server {

HttpResponse json_page(const boost::json::value& value);
HttpResponse with_warning(HttpResponse response, const std::string& warning);
// Returns the warning about fields of `body` that are not in `known`.
ApiResult<std::string> check_names(const boost::json::object& body,
                                   std::span<const std::string_view> known, bool strict);

}  // namespace quire::server
