// The routes by which an operator pauses, empties and asks about the engine: vLLM's development
// endpoints, under its names. None is for clients; ServerOptions::enable_dev_endpoints opens them.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> engine_control_routes();

// What the request's endpoint-load-metrics-format header asks for (TEXT or JSON, in any case): the
// value of the endpoint-load-metrics header (ORCA load report), with the share of KV blocks in use
// and the number of waiting requests. Nullopt: nothing, or another format.
std::optional<std::string> load_report(const HttpRequest& request, const AsyncEngine& engine);

}  // namespace quire::server
