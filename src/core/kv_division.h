// How memory for the KV cache is divided among its pools (core/kv_spec.h).
#pragma once

#include <cstdint>

#include "core/kv_spec.h"

namespace quire {

// The largest load that runs at once.
struct KvLoad {
  int64_t max_num_seqs = 1;
  int64_t max_step_tokens = 1;  // of all requests together
};

// Returns the number of blocks, null blocks included, of each pool that `spec` uses in `bytes` of
// memory. For a model with attention and states, the states of running requests come first, with at
// most half of the memory; the rest is divided so that there is one snapshot for every
// KvSpec::state.block_size tokens that attention has room for. The plan has 0 blocks if there is no
// room for a null block and one more.
KvPlan divide_kv_memory(const KvSpec& spec, int64_t bytes, const KvLoad& load);

// Returns the state blocks that running requests need, the null block included: each reads one and
// writes one, and a step leaves a snapshot at every multiple of the block size that it passes.
int64_t num_running_states(const KvSpec& spec, const KvLoad& load);

// Returns the bytes of all blocks of a plan.
int64_t kv_plan_bytes(const KvSpec& spec, const KvPlan& plan);

}  // namespace quire
