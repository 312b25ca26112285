// These are OpenAI's own routes that generate text: /v1/completions and /v1/chat/completions.
#pragma once

#include <span>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> completions_routes();

}  // namespace quire::server
