// The description of this API, generated from the route table and the field table, and the page
// that shows it.
#pragma once

#include <string>
#include <string_view>

namespace quire::server {

// OpenAPI 3.1 as JSON text. `root_path`: prefix that a proxy adds; may be empty.
std::string openapi_document(const std::string& root_path);
// A self-contained HTML page over /openapi.json.
std::string_view docs_page();

}  // namespace quire::server
