// /v1/models, as OpenAI has it.
#pragma once

#include <span>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> model_routes();

}  // namespace quire::server
