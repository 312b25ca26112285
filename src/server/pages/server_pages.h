// What operators and their tools ask of a server: its health, metrics and description.
#pragma once

#include <span>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> server_routes();

}  // namespace quire::server
