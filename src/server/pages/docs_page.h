// This is a self-contained HTML page that shows /openapi.json.
#pragma once

#include <string_view>

namespace quire::server {

std::string_view docs_page();

}  // namespace quire::server
