// What operators and their tools ask of a server: its health, metrics and description.
#pragma once

#include <span>
#include <string>

#include "server/door/route.h"
#include "server/door/server_state.h"

namespace quire::server {

std::span<const Route> server_routes();

// What /metrics says.
std::string metrics_text(const ServerState& server);

}  // namespace quire::server
