// These are the views of the engine for the web page, under /quire/.
#pragma once

#include <span>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> engine_view_routes();

}  // namespace quire::server
