// Makes the arrays of a step from a small diff, with one block of threads per request.
#include <cstdint>

#include "kernels/api/step_inputs.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 128;

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1)
    update_tables_kernel(int32_t* tables, const BlockEntry* entries, int64_t num_entries) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int64_t stride = int64_t{ptx::num_blocks()} * kThreads;
  for (int64_t i = int64_t{ptx::block_index()} * kThreads + ptx::thread_index(); i < num_entries;
       i += stride) {
    tables[entries[i].index] = entries[i].block;
  }
}

QUIRE_DEVICE const int32_t* table_of(const StepInputsParams& p, int32_t group, int32_t slot) {
  return p.tables + (int64_t{group} * p.num_slots + slot) * p.max_blocks;
}

QUIRE_DEVICE void fill_tokens(const StepInputsParams& p, const StepRequest& request) {
  for (int32_t i = ptx::thread_index(); i < request.num_tokens; i += kThreads) {
    const int64_t row = int64_t{request.first_token} + i;
    const int32_t position = request.begin + i;
    p.input_ids[row] = i < request.num_known ? p.known_ids[row] : p.last_tokens[request.slot];
    p.positions[row] = position;
    for (int32_t group = 0; group < p.num_groups; ++group) {
      const int64_t block = table_of(p, group, request.slot)[position / p.block_size];
      p.slot_mapping[group * p.max_tokens + row] = block * p.block_size + position % p.block_size;
    }
  }
}

QUIRE_DEVICE void fill_table(const StepInputsParams& p, const StepRequest& request, int32_t index) {
  const int32_t end = request.begin + request.num_tokens;
  const int32_t num_blocks = (end + p.block_size - 1) / p.block_size;
  for (int32_t group = 0; group < p.num_groups; ++group) {
    const int32_t* from = table_of(p, group, request.slot);
    int32_t* to = p.block_tables + (int64_t{group} * p.num_slots + index) * p.max_blocks;
    for (int32_t i = ptx::thread_index(); i < num_blocks; i += kThreads) to[i] = from[i];
  }
}

QUIRE_DEVICE void pad_tokens(const StepInputsParams& p) {
  for (int64_t row = p.num_tokens + ptx::thread_index(); row < p.padded_tokens; row += kThreads) {
    p.input_ids[row] = 0;
    p.positions[row] = 0;
    for (int32_t group = 0; group < p.num_groups; ++group)
      p.slot_mapping[group * p.max_tokens + row] = -1;
  }
}

// Block r < padded_requests fills request r; the block after them fills the padding of the tokens.
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1) step_inputs_kernel(const StepInputsParams p) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int32_t index = ptx::block_index();
  const bool is_first_thread = ptx::thread_index() == 0;
  if (index == p.padded_requests) {
    pad_tokens(p);
    if (is_first_thread) p.query_start_loc[0] = 0;
    return;
  }
  if (index >= p.num_requests) {
    if (!is_first_thread) return;
    p.seq_lens[index] = 0;
    p.query_start_loc[index + 1] = static_cast<int32_t>(p.num_tokens);
    return;
  }
  const StepRequest request = p.requests[index];
  fill_tokens(p, request);
  fill_table(p, request, index);
  if (!is_first_thread) return;
  p.seq_lens[index] = request.begin + request.num_tokens;
  p.query_start_loc[index + 1] = request.first_token + request.num_tokens;
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1) keep_tokens_kernel(const KeepTokensParams p) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int64_t i = int64_t{ptx::block_index()} * kThreads + ptx::thread_index();
  if (i >= p.num_rows) return;
  const TokenId token = p.sampled[i].token_id;
  if (p.token_ids != nullptr) p.token_ids[i] = token;
  if (p.slots[i] >= 0) p.last_tokens[p.slots[i]] = token < 0 ? 0 : token;
}

}  // namespace

void build_step_inputs(Stream& stream, const StepInputsParams& p) {
  QUIRE_CHECK(p.num_requests <= p.padded_requests && p.padded_requests <= p.num_slots &&
                  p.num_tokens <= p.padded_tokens && p.padded_tokens <= p.max_tokens,
              "[build_step_inputs] {} of {} requests, {} of {} tokens", p.num_requests,
              p.padded_requests, p.num_tokens, p.padded_tokens);
  if (p.num_entries > 0) {
    launch<update_tables_kernel>(stream,
                                 {.num_blocks = blocks_for(gpu(stream), p.num_entries, kThreads, 8),
                                  .num_threads = kThreads},
                                 p.tables, p.entries, p.num_entries);
  }
  launch<step_inputs_kernel>(
      stream, {.num_blocks = int64_t{p.padded_requests} + 1, .num_threads = kThreads}, p);
}

void keep_tokens(Stream& stream, const KeepTokensParams& p) {
  launch<keep_tokens_kernel>(
      stream, {.num_blocks = (p.num_rows + kThreads - 1) / kThreads, .num_threads = kThreads}, p);
}

}  // namespace quire::cuda
