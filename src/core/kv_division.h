// How memory for the KV cache is divided among its pools (core/kv_spec.h).
#pragma once

#include <cstdint>

#include "core/kv_spec.h"

namespace quire {

// What runs at once.
struct KvLoad {
  int64_t max_num_seqs = 1;
  int64_t max_step_tokens = 1;  // of all requests together
};

// Returns how many blocks of every pool that `spec` uses, null blocks included, lie in `bytes` of
// memory. A model with attention and states gives the states that running requests need what they
// take, at most half, and divides the rest so that there is a snapshot for every
// KvSpec::state.block_size tokens that attention has room for. The plan has 0 blocks where not even
// a null block and one more fit.
KvPlan divide_kv_memory(const KvSpec& spec, int64_t bytes, const KvLoad& load);

// State blocks that requests need while they run, the null block included: each reads one and
// writes one, and a step leaves a snapshot wherever it comes past a multiple of the block size.
int64_t num_running_states(const KvSpec& spec, const KvLoad& load);

// Returns the bytes of all blocks of a plan.
int64_t kv_plan_bytes(const KvSpec& spec, const KvPlan& plan);

}  // namespace quire
