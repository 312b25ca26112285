// These are the routes /v1/files and /v1/batches in OpenAI's form.
#pragma once

#include <span>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> files_routes();

}  // namespace quire::server
