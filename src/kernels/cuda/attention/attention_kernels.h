// The launches of which paged_attention() consists.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "kernels/cuda/attention/attention_device.h"

namespace quire::cuda {

// What a prefill kernel needs from the cut and the workspace.
struct PrefillShape {
  int32_t item_rows = 0;     // packed rows of an item
  int64_t total_floats = 0;  // with fold_splits: scratch of all blocks that may run at once
};
PrefillShape prefill_shape(const Stream& stream, int head_dim);
PrefillShape warpgroup_prefill_shape(const Stream& stream, int head_dim);

// Fills args.lists from query_start_loc and seq_lens.
void launch_attention_cut(Stream& stream, const AttentionArgs& args);
// `max_rows` is an upper bound of the packed rows of a request that decodes, and `max_items` one of
// the number of items; they determine the size of the grid.
void launch_decode_attention(Stream& stream, const AttentionArgs& args, int32_t max_rows,
                             int64_t max_items);
void launch_combine_attention(Stream& stream, const AttentionArgs& args, int32_t max_rows);
// Launches AttentionWay::kPlain, which needs neither a cut nor a workspace.
void launch_plain_attention(Stream& stream, const AttentionArgs& args);
void launch_prefill_attention(Stream& stream, const AttentionArgs& args);
// Does the same on Hopper GPUs only (GpuStream::warpgroup_products()).
void launch_warpgroup_prefill_attention(Stream& stream, const AttentionArgs& args);
// Do the same for AttentionWay::kWide.
PrefillShape wide_prefill_shape(const Stream& stream);
void launch_wide_decode_attention(Stream& stream, const AttentionArgs& args, int64_t max_items);
void launch_wide_prefill_attention(Stream& stream, const AttentionArgs& args);

}  // namespace quire::cuda
