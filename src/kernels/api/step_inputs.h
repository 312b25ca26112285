// build_step_inputs() builds the arrays of a step on a GPU from the changes since the step before.
// Between steps the device keeps the block tables of each slot (the place of a request) and the
// token that was sampled last for it, and the host sends the rest. So the next step can be queued
// before the host has the tokens that this step samples.
//
// These ops are for GPUs only: on a CPU exec/input_batch.h fills the arrays.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "device/stream.h"
#include "kernels/api/sampling.h"

namespace quire {

// A scheduled request, in device memory. The step computes its positions [begin, begin +
// num_tokens), which are the rows of the batch from first_token on.
struct StepRequest {
  int32_t slot = 0;
  int32_t begin = 0;
  int32_t num_tokens = 0;
  int32_t num_known = 0;  // leading tokens that the host sends; the rest is the slot's last token
  int32_t first_token = 0;
};

// A change of a block table: tables[index] = block.
struct BlockEntry {
  int32_t index = 0;
  int32_t block = 0;
};

// All pointers are device memory. Rows from num_tokens on and requests from num_requests on are the
// padding of a captured graph, and have no effect.
struct StepInputsParams {
  const StepRequest* requests = nullptr;  // [num_requests]
  const BlockEntry* entries = nullptr;  // [num_entries], no index twice; written to `tables` first
  const TokenId* known_ids = nullptr;   // [num_tokens]; unknown ones are not read
  int32_t num_requests = 0;
  int64_t num_entries = 0;
  int64_t num_tokens = 0;
  int32_t padded_requests = 0;
  int64_t padded_tokens = 0;

  int32_t block_size = 16;
  int32_t num_groups = 1;                // G
  int32_t num_slots = 0;                 // and the most requests of a step
  int64_t max_blocks = 0;                // per request and group
  int64_t max_tokens = 0;                // of a step
  int32_t* tables = nullptr;             // kept: [G, num_slots, max_blocks]
  const TokenId* last_tokens = nullptr;  // kept: [num_slots]

  TokenId* input_ids = nullptr;        // [padded_tokens]
  int32_t* positions = nullptr;        // [padded_tokens]
  int32_t* query_start_loc = nullptr;  // [padded_requests + 1]
  int32_t* seq_lens = nullptr;         // [padded_requests]
  int64_t* slot_mapping = nullptr;     // [G, max_tokens]; -1: padding
  // [G, num_slots, max_blocks], by request of the step. Only the entries of a request's positions
  // are written.
  int32_t* block_tables = nullptr;
};
void build_step_inputs(Stream& stream, const StepInputsParams& params);

// keep_tokens() sets last_tokens[slots[i]] = sampled[i] where slots[i] >= 0. A row without a token
// stores 0.
struct KeepTokensParams {
  const SampledToken* sampled = nullptr;  // [n]
  const int32_t* slots = nullptr;         // [n], none twice
  int64_t num_rows = 0;
  TokenId* last_tokens = nullptr;  // [num_slots]
  TokenId* token_ids = nullptr;    // [n] or null: writes the sampled ids, without the rest
};
void keep_tokens(Stream& stream, const KeepTokensParams& params);

}  // namespace quire
