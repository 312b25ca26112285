// These are the routes of OpenAI's Responses API: /v1/responses and the paths below it.
#pragma once

#include <span>

#include "server/door/route.h"

namespace quire::server {

extern const Door kResponsesDoor;

std::span<const Route> responses_routes();

}  // namespace quire::server
