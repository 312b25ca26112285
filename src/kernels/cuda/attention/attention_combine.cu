// Folds the partial sums of a decoded row over its splits, in ascending order.
#include "kernels/cuda/attention/attention_kernels.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kWarpDims = 64;      // two dims per lane
constexpr int kSplitsAtOnce = 16;  // partial sums of so many splits are loaded together

// A warp folds some dims of one row.
struct CombineUnit {
  AttentionItem item;
  int32_t row = 0;
  int32_t first_dim = 0;
  int32_t num_splits = 0;
  int64_t split_floats = 0;  // distance between the partial sums of two splits
  const float* partials = nullptr;
};

QUIRE_DEVICE void combine(const AttentionArgs& args, const CombineUnit& unit) {
  using Pair = Elements<2, float>;
  const int32_t dim = unit.first_dim + ptx::thread_index() % 32 * 2;
  const bool is_dim = dim < args.value_dim;
  float sums[2] = {};
  float maximum = -ptx::infinity();
  float weight = 0.0f;
#pragma unroll 1
  for (int32_t begin = 0; begin < unit.num_splits; begin += kSplitsAtOnce) {
    Pair ends[kSplitsAtOnce];  // maximum and weight
    Pair parts[kSplitsAtOnce];
#pragma unroll
    for (int j = 0; j < kSplitsAtOnce; ++j) {
      if (begin + j >= unit.num_splits) continue;
      const float* partial = unit.partials + (begin + j) * unit.split_floats;
      ends[j] = *reinterpret_cast<const Pair*>(partial + args.value_dim);
      parts[j] = is_dim ? *reinterpret_cast<const Pair*>(partial + dim) : Pair{};
    }
#pragma unroll
    for (int j = 0; j < kSplitsAtOnce; ++j) {
      if (begin + j >= unit.num_splits) continue;
      const FoldFactors factors = fold_factors(maximum, ends[j].at[0]);
      maximum = factors.maximum;
      weight = fold(factors, weight, ends[j].at[1]);
#pragma unroll
      for (int i = 0; i < 2; ++i) sums[i] = fold(factors, sums[i], parts[j].at[i]);
    }
  }
  if (!is_dim) return;
  const int32_t head = unit.item.kv_head * args.cut.group + unit.row % args.cut.group;
  const Finish finish = finish_row(args, head, maximum, weight);
  store(out_row(args, unit.item, unit.row) + dim,
        {finished(finish, sums[0]), finished(finish, sums[1])});
}

// Returns unit number i of the grid. It has no splits if there is nothing to fold.
QUIRE_DEVICE CombineUnit find_unit(const AttentionArgs& args, int32_t max_rows, int64_t i) {
  const int32_t chunks = (args.value_dim + kWarpDims - 1) / kWarpDims;
  const int32_t per_row = args.num_kv_heads * chunks;
  const auto row = static_cast<int32_t>(i / per_row);
  const auto rest = static_cast<int32_t>(i % per_row);
  const int32_t request = row / max_rows;
  CombineUnit unit;
  unit.row = row % max_rows;
  unit.first_dim = rest % chunks * kWarpDims;
  const int32_t* start = args.query_start_loc + request;
  const RequestCut cut = cut_request(args.cut, start[1] - start[0], args.seq_lens[request]);
  const int32_t* items = args.lists.decode_items + request;
  if (items[0] == items[1] || cut.num_splits == 1 || unit.row >= cut.rows) return unit;
  unit.item = make_item(args, request, rest / chunks, 0, cut.rows);
  unit.num_splits = cut.num_splits;
  const int64_t row_floats = int64_t{args.value_dim} + 2;
  const int64_t slot = int64_t{args.lists.partial_rows[request]} + unit.row;
  unit.split_floats = int64_t{cut.rows} * args.num_kv_heads * row_floats;
  unit.partials = args.partials + (slot * args.num_kv_heads + unit.item.kv_head) * row_floats;
  return unit;
}

// The batch was cut before the decode kernel began, so a warp can find its work while that kernel
// still runs.
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 4)
    combine_kernel(const AttentionArgs args, int32_t max_rows, int64_t num_units) {
  ptx::let_next_kernel_start();
  const int64_t first = int64_t{ptx::block_index()} * kWarps + ptx::thread_index() / 32;
  for (int64_t i = first; i < num_units; i += int64_t{ptx::num_blocks()} * kWarps) {
    const CombineUnit unit = find_unit(args, max_rows, i);
    ptx::wait_for_previous_kernel();
    if (unit.num_splits > 0) combine(args, unit);
  }
  ptx::wait_for_previous_kernel();  // needed without a unit too: the next kernel relies on it
}

}  // namespace

void launch_combine_attention(Stream& stream, const AttentionArgs& args, int32_t max_rows) {
  const int64_t chunks = (args.value_dim + kWarpDims - 1) / kWarpDims;
  const int64_t work = int64_t{args.num_reqs} * max_rows * args.num_kv_heads * chunks;
  launch<combine_kernel>(
      stream, {.num_blocks = blocks_for(gpu(stream), work, kWarps, 8), .num_threads = kThreads},
      args, max_rows, work);
}

}  // namespace quire::cuda
