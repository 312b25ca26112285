// Functions that the prefill kernels share, for 16 packed query rows of a warp that walks over
// tiles of 64 positions. Of each tensor core tile a lane holds two rows, lane / 4 and the one eight
// below. The arithmetic of a row is that of decode (attention_device.h).
#pragma once

#include <type_traits>

#include "kernels/cuda/attention/attention_device.h"

namespace quire::cuda {

// The state of the softmax of the lane's two rows.
struct RowSoftmax {
  float maximum[2];
  float weight[1][4];  // [0][0] and [0][2], of a product with ones
};
// The same for all splits that are finished.
struct RowTotals {
  float maximum[2];
  float weight[2];
};
template <int kHeadDim>
struct RowSums {
  static constexpr int kPanels = kHeadDim / 64;
  float sums[kPanels][8][4];  // 64 dims each
};
// Returns how many floats of scratch fold_rows() needs per lane.
constexpr int row_total_floats(int head_dim) { return head_dim / 8 * 4 + 4; }

QUIRE_DEVICE void clear(float (&maximum)[2]) { maximum[0] = maximum[1] = -ptx::infinity(); }
QUIRE_DEVICE void clear(float (&weight)[1][4]) {
#pragma unroll
  for (float& x : weight[0]) x = 0.0f;
}
template <int kHeadDim>
QUIRE_DEVICE void clear(RowSums<kHeadDim>& rows) {
#pragma unroll
  for (auto& panel : rows.sums) {
#pragma unroll
    for (auto& tile : panel) {
#pragma unroll
      for (float& x : tile) x = 0.0f;
    }
  }
}

QUIRE_DEVICE RowTotals totals_of(const float (&maximum)[2], const float (&weight)[1][4]) {
  return {{maximum[0], maximum[1]}, {weight[0][0], weight[0][2]}};
}

// Calls f(0), f(1), ... with numbers that are compile-time constants in f. For some arrays, loops
// are unrolled too late: by then the compiler has put the arrays into memory.
template <int kEnd, int kBegin = 0, typename F>
QUIRE_DEVICE void unrolled(F&& f) {
  if constexpr (kBegin < kEnd) {
    f(std::integral_constant<int, kBegin>{});
    unrolled<kEnd, kBegin + 1>(f);
  }
}

// Applies ALiBi to scores: rows from first_row on, positions from first_position on.
QUIRE_DEVICE void apply_alibi(const AttentionArgs& args, const AttentionItem& item,
                              int32_t first_row, int32_t first_position, float (&scores)[8][4]) {
  const int lane = ptx::thread_index() % 32;
  unrolled<2>([&](auto h) {
    const int32_t row = first_row + lane / 4 + h * 8;
    const int32_t head = item.kv_head * args.cut.group + row % args.cut.group;
    const float slope = args.alibi_slopes[head];
    const int32_t query = item.first_position + row / args.cut.group;
    const int32_t distance = query - first_position - lane % 4 * 2;
    unrolled<16>([&](auto i) {
      constexpr int kPosition = i / 2 * 8 + i % 2;
      float& score = scores[i / 2][2 * h + i % 2];
      score = ptx::multiply(score_with_alibi(slope, distance - kPosition, score), kLog2E);
    });
  });
}

// Caps scores and converts them to units of log2, unless ALiBi follows, which does that.
QUIRE_DEVICE void cap_scores(const AttentionArgs& args, const AttentionItem& item,
                             float (&scores)[8][4]) {
  if (!changes_scores(args)) return;
  const float unit = args.alibi_slopes != nullptr ? 1.0f : kLog2E;
  unrolled<32>([&](auto i) {
    float& score = scores[i / 4][i % 4];
    score = ptx::multiply(capped_score(args, item, score), unit);
  });
}

// Sets scores that a row does not see to -infinity: rows from first_row on, positions from
// first_position on.
QUIRE_DEVICE void hide_scores(const AttentionArgs& args, const AttentionItem& item,
                              int32_t first_row, int32_t first_position, float (&scores)[8][4]) {
  const int lane = ptx::thread_index() % 32;
  unrolled<2>([&](auto h) {
    const int32_t row = first_row + lane / 4 + h * 8;
    const int32_t query_position = item.first_position + row / args.cut.group;
    const int32_t last = query_position < item.end ? query_position : item.end - 1;
    const int32_t first_of_lane = first_position + lane % 4 * 2;
    const int32_t begin = first_visible(args.cut, query_position) - first_of_lane;
    const int32_t end = last + 1 - first_of_lane;
    unrolled<16>([&](auto i) {
      constexpr int kPosition = i / 2 * 8 + i % 2;
      float& score = scores[i / 2][2 * h + i % 2];
      if (kPosition < begin || kPosition >= end) score = -ptx::infinity();
    });
  });
}

// Turns the scores of a tile into softmax weights, and updates the rows' maxima. The rows' sums and
// weights must be multiplied by `shrink` before the tile is added.
QUIRE_DEVICE void weigh_scores(float (&maxima)[2], float factor, float (&scores)[8][4],
                               float (&shrink)[2]) {
  unrolled<2>([&](auto h) {
    float most[4];  // four independent maxima, so that none waits for another
    unrolled<4>([&](auto i) { most[i] = ptx::max(scores[i][2 * h], scores[i][2 * h + 1]); });
    unrolled<4>([&](auto i) { most[i] = ptx::max(most[i], scores[4 + i][2 * h]); });
    unrolled<4>([&](auto i) { most[i] = ptx::max(most[i], scores[4 + i][2 * h + 1]); });
    float seen = ptx::max(ptx::max(most[0], most[1]), ptx::max(most[2], most[3]));
    seen = ptx::max(seen, ptx::shuffle_xor(seen, 1));
    seen = ptx::max(seen, ptx::shuffle_xor(seen, 2));
    // The factor is positive, so the greatest product is the product of the greatest score.
    const float maximum = raised_maximum(maxima[h], ptx::multiply(seen, factor));
    const float base = finite_maximum(maximum);
    shrink[h] = ptx::exp2_fast(ptx::add(maxima[h], -base));
    maxima[h] = maximum;
    unrolled<16>([&](auto i) {
      float& score = scores[i / 2][2 * h + i % 2];
      score = softmax_weight(score, factor, base);
    });
  });
}

// Converts the weights of a tile to A operands of 16 positions each.
QUIRE_DEVICE void pack_weights(const float (&scores)[8][4], uint32_t (&weights)[4][4]) {
  unrolled<16>([&](auto i) {
    const float* pair = &scores[i / 2][i % 2 * 2];
    weights[i / 4][i % 4] = ptx::pack_bf16(pair[0], pair[1]);
  });
}

template <int kHeadDim>
QUIRE_DEVICE void shrink_rows(RowSums<kHeadDim>& rows, float (&weight)[1][4],
                              const float (&shrink)[2]) {
  weight[0][0] = ptx::multiply(weight[0][0], shrink[0]);
  weight[0][2] = ptx::multiply(weight[0][2], shrink[1]);
#pragma unroll
  for (auto& panel : rows.sums) {
#pragma unroll
    for (auto& tile : panel) {
#pragma unroll
      for (int i = 0; i < 4; ++i) tile[i] = ptx::multiply(tile[i], shrink[i / 2]);
    }
  }
}

// The memory where a lane keeps the totals of its rows between splits: row_total_floats() / 4
// groups of four floats, `stride` groups apart.
struct FoldStore {
  using Four = Elements<4, float>;
  Four* fours = nullptr;
  int stride = 0;

  QUIRE_DEVICE Four& at(int i) const { return fours[i * stride]; }
};

// Ends a split as decode's combine does: folds it into the totals of the splits before it. The
// result is left in `store` for the next split or, after the last one, in `rows` and `split`.
template <int kHeadDim>
QUIRE_DEVICE void fold_rows(RowSums<kHeadDim>& rows, RowTotals& split, const FoldStore& store,
                            bool is_first, bool is_last) {
  using Four = FoldStore::Four;
  const float none = -ptx::infinity();
  Four old{{none, 0.0f, none, 0.0f}};
  if (!is_first) old = store.at(0);
  FoldFactors factors[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    factors[h] = fold_factors(old.at[2 * h], split.maximum[h]);
    split.maximum[h] = factors[h].maximum;
    split.weight[h] = fold(factors[h], old.at[2 * h + 1], split.weight[h]);
  }
  if (!is_last)
    store.at(0) = {{split.maximum[0], split.weight[0], split.maximum[1], split.weight[1]}};
  constexpr int kAtOnce = kHeadDim <= 128 ? 8 : 2;  // loads issued before the first is used
  unrolled<kHeadDim / 8 / kAtOnce>([&](auto batch) {
    Four totals[kAtOnce] = {};
    if (!is_first)
      unrolled<kAtOnce>([&](auto n) { totals[n] = store.at(1 + batch * kAtOnce + n); });
    unrolled<kAtOnce>([&](auto n) {
      constexpr int kTile = batch * kAtOnce + n;
      unrolled<4>([&](auto i) {
        float& sum = rows.sums[kTile / 8][kTile % 8][i];
        totals[n].at[i] = fold(factors[i / 2], totals[n].at[i], sum);
        sum = is_last ? totals[n].at[i] : 0.0f;
      });
      if (!is_last) store.at(1 + kTile) = totals[n];
    });
  });
}

// Writes the finished rows from first_row on that belong to the item.
template <int kHeadDim>
QUIRE_DEVICE void store_rows(const AttentionArgs& args, const AttentionItem& item,
                             int32_t first_row, const RowSums<kHeadDim>& rows,
                             const RowTotals& totals) {
  const int lane = ptx::thread_index() % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int32_t row = first_row + lane / 4 + h * 8;
    if (row >= item.end_row) continue;
    const int32_t head = item.kv_head * args.cut.group + row % args.cut.group;
    const Finish finish = finish_row(args, head, totals.maximum[h], totals.weight[h]);
    bfloat16* out = out_row(args, item, row);
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      const int dim = n * 8 + lane % 4 * 2;
      if (dim >= args.head_dim) continue;
      const float(&tile)[4] = rows.sums[n / 8][n % 8];
      const uint32_t pair =
          ptx::pack_bf16(finished(finish, tile[2 * h]), finished(finish, tile[2 * h + 1]));
      *reinterpret_cast<uint32_t*>(out + dim) = pair;
    }
  }
}

// How a prefill item walks over its tiles.
struct TileWalk {
  int32_t first_tile = 0;  // of 64 positions
  int32_t num_tiles = 0;
  int32_t tiles_per_split = 1;
  bool folds = false;     // there is more than one split, and splits are folded
  int32_t all_begin = 0;  // every row sees every position in [all_begin, all_end)
  int32_t all_end = 0;

  QUIRE_HOST_DEVICE bool needs_check(int32_t tile) const {
    const int32_t position = (first_tile + tile) * kAttentionTile;
    return position < all_begin || position + kAttentionTile > all_end;
  }
  // Returns how many tiles precede the first fold, unless that is the last one; -1 if no fold is
  // due.
  QUIRE_HOST_DEVICE int32_t tiles_before_fold() const {
    return folds ? tiles_per_split - first_tile % tiles_per_split : -1;
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

// Calls body for each prefill item of the block, one after another. The last rows of a request,
// which see most positions, come first. Every other round assigns items to blocks in reverse order,
// so that a block with a longer item in one round gets a shorter one in the next.
template <typename F>
QUIRE_DEVICE void for_each_prefill_item(const AttentionArgs& args, F&& body) {
  const int32_t num_items = args.lists.prefill_items[args.num_reqs] * args.num_kv_heads;
  int32_t place = ptx::block_index();
  for (int32_t first = 0; first < num_items; first += ptx::num_blocks()) {
    const int32_t i = first + place;
    place = ptx::num_blocks() - 1 - place;
    if (i >= num_items) continue;
    const int32_t kv_head = i % args.num_kv_heads;
    const int32_t flat = i / args.num_kv_heads;
    const int32_t request = find_request(args.lists.prefill_items, args.num_reqs, flat);
    const int32_t index = args.lists.prefill_items[request + 1] - 1 - flat;
    body(make_item(args, request, kv_head, index * args.cut.prefill_rows, args.cut.prefill_rows));
  }
}

}  // namespace quire::cuda
