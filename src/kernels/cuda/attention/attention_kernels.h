// These launches make up one call of paged_attention().
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "kernels/cuda/attention/attention_device.h"

namespace quire::cuda {

// A prefill kernel wants this of the cut and of the workspace.
struct PrefillShape {
  int32_t item_rows = 0;     // packed rows of an item
  int64_t total_floats = 0;  // scratch of all blocks that may run at once, with fold_splits
};
PrefillShape prefill_shape(const Stream& stream, int head_dim);
PrefillShape warpgroup_prefill_shape(const Stream& stream, int head_dim);

// Fills args.lists from query_start_loc and seq_lens.
void launch_attention_cut(Stream& stream, const AttentionArgs& args);
// `max_rows` is an upper bound of the packed rows of a request that decodes, `max_items` one of the
// items, for the size of the grid.
void launch_decode_attention(Stream& stream, const AttentionArgs& args, int32_t max_rows,
                             int64_t max_items);
void launch_combine_attention(Stream& stream, const AttentionArgs& args, int32_t max_rows);
// For AttentionWay::kPlain: needs neither a cut nor a workspace.
void launch_plain_attention(Stream& stream, const AttentionArgs& args);
void launch_prefill_attention(Stream& stream, const AttentionArgs& args);
// These do the same for Hopper alone (GpuStream::warpgroup_products()).
void launch_warpgroup_prefill_attention(Stream& stream, const AttentionArgs& args);
// These do the same for AttentionWay::kWide.
PrefillShape wide_prefill_shape(const Stream& stream);
void launch_wide_decode_attention(Stream& stream, const AttentionArgs& args, int64_t max_items);
void launch_wide_prefill_attention(Stream& stream, const AttentionArgs& args);

}  // namespace quire::cuda
