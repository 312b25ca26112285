// The arrays of a step, built on a GPU from what changed since the step before. Between steps the
// device keeps for each slot (a request's place) its block tables and the token it sampled last;
// the host sends what only it knows. Needed where the next step is queued before the host has seen
// what this one samples.
//
// For GPUs: on a CPU exec/input_batch.h fills the arrays itself.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "device/stream.h"
#include "kernels/api/sampling.h"

namespace quire {

// A scheduled request: positions [begin, begin + num_tokens) run, as rows first_token … of the
// batch. Lies in device memory.
struct StepRequest {
  int32_t slot = 0;
  int32_t begin = 0;
  int32_t num_tokens = 0;
  int32_t num_known = 0;  // leading tokens that the host sends; those behind: the slot's last token
  int32_t first_token = 0;
};

// tables[index] = block.
struct BlockEntry {
  int32_t index = 0;
  int32_t block = 0;
};

// All pointers are device memory. Rows and requests behind the real ones do nothing: the padding of
// a captured graph.
struct StepInputsParams {
  const StepRequest* requests = nullptr;  // [num_requests]
  const BlockEntry* entries = nullptr;    // [num_entries], no index twice; applied first
  const TokenId* known_ids = nullptr;     // [num_tokens]; unknown ones are not read
  int32_t num_requests = 0;
  int64_t num_entries = 0;
  int64_t num_tokens = 0;
  int32_t padded_requests = 0;
  int64_t padded_tokens = 0;

  int32_t block_size = 16;
  int32_t num_groups = 1;                // G
  int32_t num_slots = 0;                 // also the most requests of a step
  int64_t max_blocks = 0;                // per request and group
  int64_t max_tokens = 0;                // of a step
  int32_t* tables = nullptr;             // kept: [G, num_slots, max_blocks]
  const TokenId* last_tokens = nullptr;  // kept: [num_slots]

  TokenId* input_ids = nullptr;        // [padded_tokens]
  int32_t* positions = nullptr;        // [padded_tokens]
  int32_t* query_start_loc = nullptr;  // [padded_requests + 1]
  int32_t* seq_lens = nullptr;         // [padded_requests]
  int64_t* slot_mapping = nullptr;     // [G, max_tokens]; -1: padding
  int32_t* block_tables = nullptr;     // [G, num_slots, max_blocks] by request of the step; only
                                       // entries of its positions are written
};
void build_step_inputs(Stream& stream, const StepInputsParams& params);

// last_tokens[slots[i]] = sampled[i], where slots[i] >= 0; 0 for a row without a token.
struct KeepTokensParams {
  const SampledToken* sampled = nullptr;  // [n]
  const int32_t* slots = nullptr;         // [n], none twice
  int64_t num_rows = 0;
  TokenId* last_tokens = nullptr;  // [num_slots]
  TokenId* token_ids = nullptr;    // [n]: the sampled ids side by side; may be null
};
void keep_tokens(Stream& stream, const KeepTokensParams& params);

}  // namespace quire
