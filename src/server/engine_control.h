// The routes by which an operator pauses, empties and asks about the engine: vLLM's development
// endpoints, under its names. None is for clients; ServerOptions::enable_dev_endpoints opens them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "server/http/http_types.h"
#include "server/http/server_options.h"
#include "server/openai/served_model.h"

namespace quire::server {

// The answer to one of these routes. Waits for the engine: not for the IO threads. The path has
// been found in the table of routes, and names one of them.
HttpResponse control_engine(const HttpRequest& request, const ServedModel& model,
                            const ServerOptions& options);

// /pause and /sleep, which may have to wait until what runs has ended: nobody waits for that.
// `respond` is called once, on any thread.
void pause_engine(const HttpRequest& request, AsyncEngine& engine,
                  std::function<void(HttpResponse)> respond);

// What the request's endpoint-load-metrics-format header asks for (TEXT or JSON, in any case): the
// value of the endpoint-load-metrics header (ORCA load report), with the share of KV blocks in use
// and the number of waiting requests. Nullopt: nothing, or another format.
std::optional<std::string> load_report(const HttpRequest& request, const AsyncEngine& engine);

}  // namespace quire::server
