// The kernel folds the partial sums of a decoded row over its splits, in ascending order.
#include "kernels/cuda/attention/attention_kernels.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kMaxDimsPerLane = 8;  // 256 / 32
constexpr int kSplitsAtOnce = 4;    // the partial sums of so many are on their way together

// One warp folds one row.
QUIRE_DEVICE void combine_row(const AttentionArgs& args, const AttentionItem& item,
                              const RequestCut& cut, int32_t row) {
  const int lane = ptx::thread_index() % 32;
  float sums[kMaxDimsPerLane] = {};
  float maximum = -ptx::infinity();
  float weight = 0.0f;
  const int64_t row_floats = int64_t{args.head_dim} + 2;
  const int64_t first = int64_t{args.lists.partial_rows[item.request]} + row;
  for (int32_t begin = 0; begin < cut.num_splits; begin += kSplitsAtOnce) {
    float maxima[kSplitsAtOnce];
    float weights[kSplitsAtOnce];
    float parts[kSplitsAtOnce][kMaxDimsPerLane];
#pragma unroll
    for (int j = 0; j < kSplitsAtOnce; ++j) {
      if (begin + j >= cut.num_splits) continue;
      const int64_t slot = first + int64_t{begin + j} * cut.rows;
      const float* partial = args.partials + (slot * args.num_kv_heads + item.kv_head) * row_floats;
      maxima[j] = partial[args.head_dim];
      weights[j] = partial[args.head_dim + 1];
#pragma unroll
      for (int i = 0; i < kMaxDimsPerLane; ++i) {
        const int dim = lane + i * 32;
        parts[j][i] = dim < args.head_dim ? partial[dim] : 0.0f;
      }
    }
#pragma unroll
    for (int j = 0; j < kSplitsAtOnce; ++j) {
      if (begin + j >= cut.num_splits) continue;
      const FoldFactors factors = fold_factors(maximum, maxima[j]);
      maximum = factors.maximum;
      weight = fold(factors, weight, weights[j]);
#pragma unroll
      for (int i = 0; i < kMaxDimsPerLane; ++i) sums[i] = fold(factors, sums[i], parts[j][i]);
    }
  }
  const int32_t head = item.kv_head * args.cut.group + row % args.cut.group;
  const Finish finish = finish_row(args, head, maximum, weight);
  bfloat16* out = out_row(args, item, row);
#pragma unroll
  for (int i = 0; i < kMaxDimsPerLane; ++i) {
    const int dim = lane + i * 32;
    if (dim < args.head_dim) out[dim] = narrow<bfloat16>(finished(finish, sums[i]));
  }
}

// There is a warp per (request, packed row, KV head), for all rows that there may be.
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1)
    combine_kernel(const AttentionArgs args, int32_t max_rows) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int64_t per_request = int64_t{max_rows} * args.num_kv_heads;
  for (int64_t i = int64_t{ptx::block_index()} * kWarps + ptx::thread_index() / 32;
       i < args.num_reqs * per_request; i += int64_t{ptx::num_blocks()} * kWarps) {
    const auto request = static_cast<int32_t>(i / per_request);
    const auto unit = static_cast<int32_t>(i % per_request);
    const int32_t row = unit / args.num_kv_heads;
    if (args.lists.decode_items[request] == args.lists.decode_items[request + 1]) continue;
    const int32_t query_len = args.query_start_loc[request + 1] - args.query_start_loc[request];
    const RequestCut cut = cut_request(args.cut, query_len, args.seq_lens[request]);
    if (cut.num_splits == 1 || row >= cut.rows) continue;
    const AttentionItem item = make_item(args, request, unit % args.num_kv_heads, 0, cut.rows);
    combine_row(args, item, cut, row);
  }
}

}  // namespace

void launch_combine_attention(Stream& stream, const AttentionArgs& args, int32_t max_rows) {
  const int64_t work = int64_t{args.num_reqs} * max_rows * args.num_kv_heads;
  launch<combine_kernel>(
      stream, {.num_blocks = blocks_for(gpu(stream), work, kWarps, 8), .num_threads = kThreads},
      args, max_rows);
}

}  // namespace quire::cuda
