// This is the web page with its playground and engine view.
#pragma once

#include <span>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> web_routes();

}  // namespace quire::server
