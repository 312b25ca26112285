// These are the routes for vectors, scores and labels in the forms of OpenAI, Cohere and vLLM.
#pragma once

#include <span>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> pooling_routes();

}  // namespace quire::server
