// The prefill kernels share this: 16 packed query rows of a warp while it walks over tiles of 64
// positions. Of each tile of tensor cores a lane holds two rows, lane / 4 and eight below it. The
// arithmetic of a row is that of decode (attention_device.h).
#pragma once

#include "kernels/cuda/attention/attention_device.h"

namespace quire::cuda {

template <int kHeadDim>
struct RowSums {
  static constexpr int kPanels = kHeadDim / 64;
  float sums[kPanels][8][4];  // of 64 dims each
  float weight[4];            // [0] and [2]: of the lane's rows
  float maximum[2];
};
// Returns the scratch of fold_rows() per lane.
constexpr int row_total_floats(int head_dim) { return head_dim / 8 * 4 + 4; }

template <int kHeadDim>
QUIRE_DEVICE void clear(RowSums<kHeadDim>& state) {
#pragma unroll
  for (auto& panel : state.sums) {
#pragma unroll
    for (auto& tile : panel) {
#pragma unroll
      for (float& x : tile) x = 0.0f;
    }
  }
#pragma unroll
  for (float& x : state.weight) x = 0.0f;
  state.maximum[0] = state.maximum[1] = -ptx::infinity();
}

// Scales the scores of rows from first_row on with positions from first_position on, and hides what
// a row does not see; `check` is false where every row sees every position.
QUIRE_DEVICE void scale_and_mask(const AttentionArgs& args, const AttentionItem& item,
                                 int32_t first_row, int32_t first_position, bool check,
                                 float (&scores)[8][4]) {
  const int lane = ptx::thread_index() % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int32_t row = first_row + lane / 4 + h * 8;
    const int32_t query_position = item.first_position + row / args.cut.group;
    const int32_t begin = first_visible(args.cut, query_position);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int32_t position = first_position + n * 8 + lane % 4 * 2 + i;
        float& score = scores[n][2 * h + i];
        score = scaled_score(args, item, score);
        if (check && (position > query_position || position < begin || position >= item.end))
          score = -ptx::infinity();
      }
    }
  }
}

// Returns the softmax weights of a tile as A operands of 16 positions each, and takes them into the
// rows' maxima and weights. The rows' sums are to be multiplied by `shrink` before the tile is
// added.
template <int kHeadDim>
QUIRE_DEVICE void take_weights(RowSums<kHeadDim>& state, const float (&scores)[8][4],
                               uint32_t (&weights)[4][4], float (&shrink)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float maximum = -ptx::infinity();
#pragma unroll
    for (int n = 0; n < 8; ++n)
      maximum = ptx::max(maximum, ptx::max(scores[n][2 * h], scores[n][2 * h + 1]));
    maximum = ptx::max(maximum, ptx::shuffle_xor(maximum, 1));
    maximum = ptx::max(maximum, ptx::shuffle_xor(maximum, 2));
    maximum = ptx::max(maximum, state.maximum[h]);
    const float base = finite_maximum(maximum);
    shrink[h] = ptx::exp2_fast(ptx::add(state.maximum[h], -base));
    state.maximum[h] = maximum;
    state.weight[2 * h] = ptx::multiply(state.weight[2 * h], shrink[h]);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      weights[n / 2][n % 2 * 2 + h] =
          ptx::pack_bf16(ptx::exp2_fast(ptx::add(scores[n][2 * h], -base)),
                         ptx::exp2_fast(ptx::add(scores[n][2 * h + 1], -base)));
    }
  }
#pragma unroll
  for (int k = 0; k < kAttentionTile / 16; ++k)
    ptx::multiply_tiles(state.weight, weights[k], kBf16Ones, kBf16Ones);
}

template <int kHeadDim>
QUIRE_DEVICE void shrink_sums(RowSums<kHeadDim>& state, const float (&shrink)[2]) {
#pragma unroll
  for (auto& panel : state.sums) {
#pragma unroll
    for (auto& tile : panel) {
#pragma unroll
      for (int i = 0; i < 4; ++i) tile[i] = ptx::multiply(tile[i], shrink[i / 2]);
    }
  }
}

// Ends a split as decode's combine does: `state` is folded into this lane's totals in memory, whose
// row_total_floats() values are `stride` apart, and cleared, or, at the end, folded and left in
// `state`.
template <int kHeadDim>
QUIRE_DEVICE void fold_rows(RowSums<kHeadDim>& state, float* totals, int stride, bool is_first,
                            bool is_last) {
  // Indices are plain numbers of loops, because through a counter some compilers keep the sums in
  // memory.
  FoldFactors factors[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float& maximum = totals[2 * h * stride];
    float& weight = totals[(2 * h + 1) * stride];
    factors[h] = fold_factors(is_first ? -ptx::infinity() : maximum, state.maximum[h]);
    maximum = factors[h].maximum;
    weight = fold(factors[h], is_first ? 0.0f : weight, state.weight[2 * h]);
    if (is_last) {
      state.maximum[h] = maximum;
      state.weight[2 * h] = weight;
    }
  }
#pragma unroll
  for (int p = 0; p < RowSums<kHeadDim>::kPanels; ++p) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& sum = state.sums[p][n][i];
        float& total = totals[(4 + (p * 8 + n) * 4 + i) * stride];
        const float folded = fold(factors[i / 2], is_first ? 0.0f : total, sum);
        total = folded;
        if (is_last) sum = folded;
      }
    }
  }
  if (!is_last) clear(state);
}

// Writes the finished rows from first_row on, as far as they belong to the item.
template <int kHeadDim>
QUIRE_DEVICE void store_rows(const AttentionArgs& args, const AttentionItem& item,
                             int32_t first_row, const RowSums<kHeadDim>& state) {
  const int lane = ptx::thread_index() % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int32_t row = first_row + lane / 4 + h * 8;
    if (row >= item.end_row) continue;
    const int32_t head = item.kv_head * args.cut.group + row % args.cut.group;
    const Finish finish = finish_row(args, head, state.maximum[h], state.weight[2 * h]);
    bfloat16* out = out_row(args, item, row);
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      const int dim = n * 8 + lane % 4 * 2;
      if (dim >= args.head_dim) continue;
      const float(&tile)[4] = state.sums[n / 8][n % 8];
      const uint32_t pair =
          ptx::pack_bf16(finished(finish, tile[2 * h]), finished(finish, tile[2 * h + 1]));
      *reinterpret_cast<uint32_t*>(out + dim) = pair;
    }
  }
}

// A TileWalk says how a prefill item walks over its tiles.
struct TileWalk {
  int32_t first_tile = 0;  // of 64 positions
  int32_t num_tiles = 0;
  int32_t tiles_per_split = 1;
  bool folds = false;     // more than one split, and splits are folded
  int32_t all_begin = 0;  // every row sees every position in [all_begin, all_end)
  int32_t all_end = 0;

  QUIRE_HOST_DEVICE bool needs_check(int32_t tile) const {
    const int32_t position = (first_tile + tile) * kAttentionTile;
    return position < all_begin || position + kAttentionTile > all_end;
  }
  QUIRE_HOST_DEVICE bool ends_split(int32_t tile) const {
    return (first_tile + tile + 1) % tiles_per_split == 0;
  }
};
QUIRE_DEVICE TileWalk tile_walk(const AttentionArgs& args, const AttentionItem& item) {
  TileWalk walk;
  walk.first_tile = item.begin / kAttentionTile;
  walk.num_tiles = (item.end - 1) / kAttentionTile + 1 - walk.first_tile;
  walk.tiles_per_split = args.cut.split_size / kAttentionTile;
  walk.folds = args.fold_splits && (walk.first_tile + walk.num_tiles - 1) / walk.tiles_per_split >
                                       walk.first_tile / walk.tiles_per_split;
  walk.all_end = item.first_position + item.first_row / args.cut.group + 1;
  walk.all_begin = first_visible(args.cut, item.end - 1);
  return walk;
}

// Visits the prefill items of a block, one after another. The last rows of a request see most, so
// they go first.
template <typename F>
QUIRE_DEVICE void for_each_prefill_item(const AttentionArgs& args, F&& body) {
  const int32_t num_items = args.lists.prefill_items[args.num_reqs];
  for (int64_t i = ptx::block_index(); i < int64_t{num_items} * args.num_kv_heads;
       i += ptx::num_blocks()) {
    const auto kv_head = static_cast<int32_t>(i % args.num_kv_heads);
    const auto flat = static_cast<int32_t>(i / args.num_kv_heads);
    const int32_t request = find_request(args.lists.prefill_items, args.num_reqs, flat);
    const int32_t index = args.lists.prefill_items[request + 1] - 1 - flat;
    body(make_item(args, request, kv_head, index * args.cut.prefill_rows, args.cut.prefill_rows));
  }
}

}  // namespace quire::cuda
