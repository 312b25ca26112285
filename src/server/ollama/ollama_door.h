// Ollama's API: /api/chat, /api/generate, and what its clients ask before them.
#pragma once

#include "server/generation/door.h"

namespace quire::server {

extern const Door kOllamaChatDoor, kOllamaGenerateDoor, kOllamaTagsDoor, kOllamaShowDoor,
    kOllamaVersionDoor, kOllamaPsDoor, kOllamaEmbedDoor;

}  // namespace quire::server
