// When the tokens of choices came.
#pragma once

#include <cstdint>

#include "core/request.h"
#include "engine/choices/group.h"
#include "engine/observe/engine_metrics.h"

namespace quire {

// Tokens of a choice have come. `request` is the scheduler's, null when that has forgotten it; with
// the first tokens it says how much of the prompt was cached.
void note_tokens(Choice& choice, int32_t num_tokens, int64_t now_us, const Request* request,
                 EngineMetrics& metrics);

}  // namespace quire
