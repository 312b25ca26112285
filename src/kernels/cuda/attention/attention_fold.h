// A decoded row is finished with these functions: its partial sums are folded over its splits, in
// ascending order.
#pragma once

#include "kernels/cuda/attention/attention_device.h"

namespace quire::cuda {

inline constexpr int kFoldDims = 64;  // of a warp, two dims per lane

// A warp folds some dims of one row.
struct FoldUnit {
  AttentionItem item;
  int32_t row = 0;
  int32_t first_dim = 0;
  int32_t num_splits = 0;
  int64_t split_floats = 0;  // from the partial sums of a split to those of the next
  const float* partials = nullptr;
};

// The partial sums of kSplitsAtOnce splits are on their way together.
template <int kSplitsAtOnce>
QUIRE_DEVICE void fold_splits(const AttentionArgs& args, const FoldUnit& unit) {
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

QUIRE_HOST_DEVICE inline int32_t fold_chunks(const AttentionArgs& args) {
  return (args.value_dim + kFoldDims - 1) / kFoldDims;
}
// Returns what a warp does for a row and a chunk of dims of a request, whose cut and item of all its
// rows these are.
QUIRE_DEVICE FoldUnit fold_unit(const AttentionArgs& args, const AttentionItem& item,
                                const RequestCut& cut, int32_t row, int32_t chunk) {
  const int64_t row_floats = int64_t{args.value_dim} + 2;
  const int64_t slot = int64_t{args.lists.partial_rows[item.request]} + row;
  return {.item = item,
          .row = row,
          .first_dim = chunk * kFoldDims,
          .num_splits = cut.num_splits,
          .split_floats = int64_t{cut.rows} * args.num_kv_heads * row_floats,
          .partials = args.partials + (slot * args.num_kv_heads + item.kv_head) * row_floats};
}

}  // namespace quire::cuda
