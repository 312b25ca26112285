// Folds the partial sums of a decoded row over its splits, in ascending order.
#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kMaxDimsPerLane = 8;  // 256 / 32

// A warp per (request, packed row, KV head).
QUIRE_DEVICE void combine_row(const AttentionArgs& args, const AttentionItem& item,
                              const RequestCut& cut, int32_t row) {
  const int lane = ptx::thread_index() % 32;
  float sums[kMaxDimsPerLane] = {};
  float maximum = -ptx::infinity();
  float weight = 0.0f;
  const int64_t stride = int64_t{args.head_dim} + 2;
  for (int32_t split = 0; split < cut.num_splits; ++split) {
    const int64_t slot = args.lists.partial_rows[item.request] + int64_t{split} * cut.rows + row;
    const float* partial = args.partials + (slot * args.num_kv_heads + item.kv_head) * stride;
    const FoldFactors factors = fold_factors(maximum, partial[args.head_dim]);
    maximum = factors.maximum;
    weight = fold(factors, weight, partial[args.head_dim + 1]);
#pragma unroll
    for (int i = 0; i < kMaxDimsPerLane; ++i) {
      const int dim = lane + i * 32;
      if (dim < args.head_dim) sums[i] = fold(factors, sums[i], partial[dim]);
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

// A block per request and stride; its warps take the rows and KV heads in turn.
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1) combine_kernel(const AttentionArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int32_t warps = kThreads / 32;
  for (int32_t request = ptx::block_index(); request < args.num_reqs;
       request += ptx::num_blocks()) {
    if (args.lists.decode_items[request] == args.lists.decode_items[request + 1]) continue;
    const int32_t query_len = args.query_start_loc[request + 1] - args.query_start_loc[request];
    const RequestCut cut = cut_request(args.cut, query_len, args.seq_lens[request]);
    if (cut.num_splits == 1) continue;
    for (int32_t i = ptx::thread_index() / 32; i < cut.rows * args.num_kv_heads; i += warps) {
      const AttentionItem item = make_item(args, request, i % args.num_kv_heads, 0, cut.rows);
      combine_row(args, item, cut, i / args.num_kv_heads);
    }
  }
}

}  // namespace

void launch_combine_attention(Stream& stream, const AttentionArgs& args) {
  launch<combine_kernel>(
      stream, {.num_blocks = blocks_for(gpu(stream), args.num_reqs, 1, 8), .num_threads = kThreads},
      args);
}

}  // namespace quire::cuda
