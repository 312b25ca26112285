// All routes of a server. A new room of routes is one line in route_table.cc.
#pragma once

#include <span>
#include <string_view>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> route_table();
// Null: there is none. A path with a slash too much at its end is the path without it.
const Route* find_route(std::string_view path);

}  // namespace quire::server
