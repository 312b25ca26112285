// These are the routes of Ollama's API: /api/chat, /api/generate, and those that its clients call
// before them.
#pragma once

#include <span>

#include "server/door/route.h"

namespace quire::server {

extern const Door kOllamaChatDoor, kOllamaGenerateDoor;

std::span<const Route> ollama_routes();

}  // namespace quire::server
