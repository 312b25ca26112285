// The launches that make up one call of paged_attention().
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "kernels/cuda/attention_device.h"

namespace quire::cuda {

// Packed rows of a prefill item, by head dim; floats of scratch per block with fold_splits.
int prefill_rows(int head_dim);
int64_t prefill_total_floats(int head_dim);
int64_t prefill_blocks(const Stream& stream);

// Fills args.lists from query_start_loc and seq_lens.
void launch_attention_cut(Stream& stream, const AttentionArgs& args);
// `max_items`: an upper bound of the items, for the size of the grid.
void launch_decode_attention(Stream& stream, const AttentionArgs& args, int64_t max_items);
void launch_combine_attention(Stream& stream, const AttentionArgs& args);
void launch_prefill_attention(Stream& stream, const AttentionArgs& args);

}  // namespace quire::cuda
