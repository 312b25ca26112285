// These are the pages for operators and their tools: health, metrics and description of the server.
#pragma once

#include <span>
#include <string>

#include "server/door/route.h"
#include "server/door/server_state.h"

namespace quire::server {

std::span<const Route> server_routes();

// Returns the text of /metrics.
std::string metrics_text(const ServerState& server);

}  // namespace quire::server
