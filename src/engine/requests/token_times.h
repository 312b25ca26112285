// Records when the tokens of choices came.
#pragma once

#include <cstdint>

#include "core/request.h"
#include "engine/choices/group.h"
#include "engine/observe/engine_metrics.h"

namespace quire {

// Records new tokens of a choice. `request` is the scheduler's, or null if it no longer has it;
// with the first tokens it gives the number of cached prompt tokens.
void note_tokens(Choice& choice, int32_t num_tokens, int64_t now_us, const Request* request,
                 EngineMetrics& metrics);

}  // namespace quire
