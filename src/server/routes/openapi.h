// openapi_document() describes this API, from the route table and the field table.
#pragma once

#include <string>

#include "server/http/server_options.h"

namespace quire::server {

// Returns OpenAPI 3.1 as JSON text for a server with these options. `vocab_size` bounds token ids.
std::string openapi_document(const ServerOptions& options, bool asks_for_keys, int32_t vocab_size);

}  // namespace quire::server
