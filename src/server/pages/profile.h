// /start_profile and /stop_profile record the steps between them as trace events, which
// chrome://tracing and Perfetto show.
#pragma once

#include <span>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> profile_routes();

}  // namespace quire::server
