// A self-contained HTML page over /openapi.json.
#pragma once

#include <string_view>

namespace quire::server {

std::string_view docs_page();

}  // namespace quire::server
