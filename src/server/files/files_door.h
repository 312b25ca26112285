// /v1/files and /v1/batches, as OpenAI has them.
#pragma once

#include <span>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> files_routes();

}  // namespace quire::server
