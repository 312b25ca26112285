// This is /v1/models in OpenAI's form.
#pragma once

#include <span>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> model_routes();

}  // namespace quire::server
