// The routes of vectors, scores and labels: OpenAI's, Cohere's and vLLM's.
#pragma once

#include <span>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> pooling_routes();

}  // namespace quire::server
