// A step without a real request, which makes the first real request as fast as the second.
#pragma once

#include "core/executor.h"
#include "nn/decoder/decoder.h"

namespace quire {

// Runs one request of a few tokens, in blocks of its own per KV group, and drops it. Does nothing
// when the pool is too small for that.
Status execute_dummy(Executor& executor, const DecoderLimits& limits, const KvPlan& kv_plan);

}  // namespace quire
