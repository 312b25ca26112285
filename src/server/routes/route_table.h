// This is the table of all routes of a server. A new group of routes is one line in route_table.cc.
#pragma once

#include <span>
#include <string_view>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> route_table();
// Returns null when there is no such route. One superfluous slash at the end of the path is
// ignored.
const Route* find_route(std::string_view path);

}  // namespace quire::server
