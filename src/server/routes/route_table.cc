#include "server/routes/route_table.h"

#include <algorithm>
#include <vector>

#include "server/adapters/adapter_routes.h"
#include "server/anthropic/messages_door.h"
#include "server/completions/completions_door.h"
#include "server/files/files_door.h"
#include "server/llama/llama_door.h"
#include "server/ollama/ollama_door.h"
#include "server/pages/engine_control.h"
#include "server/pages/engine_views.h"
#include "server/pages/model_pages.h"
#include "server/pages/profile.h"
#include "server/pages/server_pages.h"
#include "server/pages/token_pages.h"
#include "server/pages/web_page.h"
#include "server/pooling/pooling_door.h"
#include "server/responses/responses_door.h"
#include "server/speech/speech_door.h"

namespace quire::server {
namespace {

std::vector<Route> all_routes() {
  std::vector<Route> all;
  for (const std::span<const Route> of_room :
       {completions_routes(), messages_routes(), responses_routes(), ollama_routes(),
        llama_routes(), pooling_routes(), speech_routes(), files_routes(), model_routes(),
        token_routes(), server_routes(), engine_view_routes(), adapter_routes(),
        engine_control_routes(), profile_routes(), web_routes()}) {
    for (const Route& route : of_room) all.push_back(route);
  }
  return all;
}

// Returns the first route that matches. Within a group, exact paths stand before those with a *.
const Route* find_exactly(std::string_view path) {
  const std::span<const Route> all = route_table();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Route& route) { return route.matches(path); });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

std::span<const Route> route_table() {
  static const std::vector<Route> kAll = all_routes();
  return kAll;
}

const Route* find_route(std::string_view path) {
  const Route* const route = find_exactly(path);
  if (route != nullptr || path.size() < 3 || path.back() != '/') return route;
  return find_exactly(path.substr(0, path.size() - 1));
}

}  // namespace quire::server
