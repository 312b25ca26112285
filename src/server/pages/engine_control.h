// These are vLLM's development endpoints, under vLLM's names, by which an operator pauses, empties
// and inspects the engine. They are not for clients, and exist only when
// ServerOptions::enable_dev_endpoints is set.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> engine_control_routes();

// Returns the value of the endpoint-load-metrics header (an ORCA load report) in the format that
// the request's endpoint-load-metrics-format header names (TEXT or JSON, in any case). The report
// has the share of KV blocks in use and the number of waiting requests. nullopt: the request asks
// for none, or for another format.
std::optional<std::string> load_report(const HttpRequest& request, const AsyncEngine& engine);

}  // namespace quire::server
