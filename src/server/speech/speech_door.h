// These are the routes that transcribe recordings: /v1/audio/transcriptions and
// /v1/audio/translations.
#pragma once

#include <span>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> speech_routes();

}  // namespace quire::server
