// OpenAI's Responses API: /v1/responses and what is under it.
#pragma once

#include "server/generation/door.h"

namespace quire::server {

extern const Door kResponsesDoor;

}  // namespace quire::server
