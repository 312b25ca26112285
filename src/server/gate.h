// The Gate decides what a request may call before its body is read: it checks the route, the
// method, the key and whether the server is draining, and answers the preflights of browsers. Any
// thread may call it.
#pragma once

#include <optional>
#include <string_view>

#include "server/door/route.h"
#include "server/door/server_state.h"
#include "server/http/auth.h"
#include "server/http/cors.h"
#include "server/http/server_options.h"
#include "server/models/model_host.h"

namespace quire::server {

// Returns why the model cannot serve this route; nullopt when it can.
ApiCheck check_serves(const Route& route, const ServedModel& model);

class Gate {
 public:
  // All arguments must outlive the gate.
  Gate(const ServerOptions& options, const ServerState& state);

  // Returns a request's path without the server's root path.
  std::string_view local_path(std::string_view path) const;
  // Returns null when there is no such route, or when this server does not have it.
  const Route* route_of(std::string_view path) const;
  // Returns the answer to a request that is refused or already answered here; nullopt when it may
  // go on.
  std::optional<HttpResponse> stop(const HttpRequest& head) const;
  // Returns the headers that every answer to the request gets.
  HeaderList answer_headers(const HttpRequest& request) const;
  bool asks_for_keys() const { return keys_.required() || state_.keys != nullptr; }

 private:
  bool is_on(RouteSwitch needed) const;
  bool allowed(const Route* route, const HttpRequest& head) const;
  std::optional<ApiError> refusal(const HttpRequest& head, const Route* route) const;
  HttpResponse preflight(const HttpRequest& head, const Route* route) const;

  const ServerOptions& options_;
  const ServerState& state_;
  const ApiKeys keys_;
  const CorsPolicy cors_;
};

}  // namespace quire::server
