// These are the routes of Anthropic's Messages API: /v1/messages and /v1/messages/count_tokens.
#pragma once

#include <span>

#include "server/door/route.h"

namespace quire::server {

extern const Door kMessagesDoor;

std::span<const Route> messages_routes();

}  // namespace quire::server
