// Anthropic's Messages API: /v1/messages and /v1/messages/count_tokens.
#pragma once

#include "server/generation/door.h"

namespace quire::server {

extern const Door kMessagesDoor;

}  // namespace quire::server
