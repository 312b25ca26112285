// The rows of a decode item in the registers of a block: scores, softmax weights and sums of a tile
// of 64 positions. Keys and values are the first operands of the tensor cores, so that eight query
// rows fill the second. The arithmetic of a row is that of prefill (attention_device.h).
#pragma once

#include "kernels/cuda/attention/decode_tiles.h"

namespace quire::cuda {

// Operands of the tensor cores, each of 16 dims or positions by 8 rows. Row tile r is rows 8 r to 8
// r + 7. The warps divide the scores by positions and, if there are more warps than kScoreWarps,
// also by row tiles or by tiles of positions.
template <typename Shape>
using QueryOperands = uint32_t[Shape::kScoreRowTiles][Shape::kHeadDim / 16][2];
template <typename Shape>
using WeightOperands = uint32_t[kAttentionTile / 16][Shape::kRowTiles][2];
template <typename Shape>
using Scores = float[Shape::kScoreTiles][Shape::kScoreRowTiles][4];

// Of each row tile a lane holds row 2 (lane % 4) in elements 0 and 2, and the next row in elements
// 1 and 3.
template <typename Shape>
struct DecodeState {
  float sums[Shape::kSumTiles][Shape::kRowTiles][4];
  float weight[Shape::kRowTiles][4];
  float maximum[Shape::kRowTiles][2];
};

// Returns this warp's number among the warps that divide the positions of a row tile's scores.
template <typename Shape>
QUIRE_DEVICE int score_warp() {
  const int warp = ptx::thread_index() / 32;
  return Shape::kScoreWarps == Shape::kWarps ? warp : warp % Shape::kScoreWarps;
}
// Returns the first row tile whose scores this warp computes.
template <typename Shape>
QUIRE_DEVICE int first_score_tile() {
  if constexpr (Shape::kScoreWarps == Shape::kWarps || Shape::kTilesAtOnce > 1) return 0;
  return ptx::thread_index() / 32 / Shape::kScoreWarps * Shape::kScoreRowTiles;
}

template <typename Shape>
QUIRE_DEVICE void clear(DecodeState<Shape>& state) {
#pragma unroll
  for (int r = 0; r < Shape::kRowTiles; ++r) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      state.weight[r][i] = 0.0f;
#pragma unroll
      for (auto& tile : state.sums) tile[r][i] = 0.0f;
    }
    state.maximum[r][0] = state.maximum[r][1] = -ptx::infinity();
  }
}

// The place of a packed row of an item in the batch.
struct RowPlace {
  int32_t token = 0;
  int32_t head = 0;
  int32_t position = 0;
  bool exists = true;
};
// Returns the place of row `row` of the item. A row that does not exist gets some other row's
// place.
template <typename Shape>
QUIRE_DEVICE RowPlace row_place(const AttentionArgs& args, const DecodeWork& work, int row) {
  const AttentionItem& item = work.item;
  const int32_t group = args.cut.group;
  if constexpr (Shape::kIsPacked) {
    const bool exists = row < work.num_requests * group;
    const int32_t request = work.requests[exists ? row / group : 0];
    return {args.query_start_loc[request], item.kv_head * group + row % group,
            args.seq_lens[request] - 1, exists};
  } else {
    const int32_t packed = item.first_row + row;
    const bool exists = packed < item.end_row;
    return {item.first_token + (exists ? packed / group : 0),
            item.kv_head * group + (exists ? packed % group : 0),
            item.first_position + packed / group, exists};
  }
}

template <typename Shape>
QUIRE_DEVICE void load_query(const AttentionArgs& args, const DecodeWork& work,
                             QueryOperands<Shape>& query) {
  const int lane = ptx::thread_index() % 32;
#pragma unroll
  for (int r = 0; r < Shape::kScoreRowTiles; ++r) {
    const RowPlace place =
        row_place<Shape>(args, work, (first_score_tile<Shape>() + r) * 8 + lane / 4);
    const bool is_row = place.exists;
    const bfloat16* from =
        args.query + int64_t{place.token} * args.query_stride + int64_t{place.head} * args.head_dim;
#pragma unroll
    for (int k = 0; k < Shape::kHeadDim / 16; ++k) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int first_dim = k * 16 + i * 8;
        const auto* pair = reinterpret_cast<const uint32_t*>(from + first_dim + lane % 4 * 2);
        query[r][k][i] = is_row && first_dim < args.head_dim ? *pair : 0;
      }
    }
  }
}

// Calls f with each score of the lane, its row of the item and its position in the tile.
template <typename Shape, typename F>
QUIRE_DEVICE void for_each_score(Scores<Shape>& scores, F f) {
  const int warp = score_warp<Shape>();
  const int lane = ptx::thread_index() % 32;
#pragma unroll
  for (int m = 0; m < Shape::kScoreTiles; ++m) {
#pragma unroll
    for (int r = 0; r < Shape::kScoreRowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        f(scores[m][r][i], (first_score_tile<Shape>() + r) * 8 + lane % 4 * 2 + i % 2,
          (m * Shape::kScoreWarps + warp) * 16 + i / 2 * 8 + lane / 4);
      }
    }
  }
}

// Adds the products of 16 keys with the queries, over the dims in ascending order. Every
// kScoreChains-th group of 16 dims forms a chain; the chains do not wait for each other, and are
// added up in order.
template <typename Shape>
QUIRE_DEVICE void add_scores(const uint8_t* keys, const QueryOperands<Shape>& query,
                             float (&scores)[Shape::kScoreRowTiles][4]) {
  constexpr int kChains = Shape::kScoreChains;
  float others[kChains][Shape::kScoreRowTiles][4] = {};  // the first chain is `scores`
  const int offset = rows_first_offset<Shape>();
#pragma unroll
  for (int k = 0; k < Shape::kHeadDim / 16; ++k) {
    uint32_t a[4];
    ptx::load_matrices(a, keys + pair_offset(offset, k));
#pragma unroll
    for (int r = 0; r < Shape::kScoreRowTiles; ++r) {
      auto& sums = k % kChains == 0 ? scores[r] : others[k % kChains][r];
      ptx::multiply_tiles(sums, a, query[r][k][0], query[r][k][1]);
    }
  }
#pragma unroll
  for (int chain = 1; chain < kChains; ++chain) {
#pragma unroll
    for (int r = 0; r < Shape::kScoreRowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[r][i] = ptx::add(scores[r][i], others[chain][r][i]);
    }
  }
}

// A lane loads codes of four consecutive dims, 4 t to 4 t + 3 of 16, where t = lane % 4. As an
// operand it needs dims 2 t, 2 t + 1 and the two that are eight above, which two other lanes have.
QUIRE_DEVICE uint32_t exchange_codes(uint32_t codes) {
  const int lane = ptx::thread_index() % 32;
  const int owner = (lane & 28) | (lane & 3) / 2;
  const uint32_t low = ptx::shuffle(codes, owner);
  const uint32_t high = ptx::shuffle(codes, owner + 2);
  return ptx::permute_bytes(low, high, lane % 2 == 0 ? 0x5140 : 0x7362);
}

template <typename Shape>
QUIRE_DEVICE void add_scores_of_codes(const uint8_t* keys, const QueryOperands<Shape>& query,
                                      float (&scores)[Shape::kScoreRowTiles][4]) {
  const int offset = rows_first_offset<Shape>();
#pragma unroll
  for (int k = 0; k < Shape::kHeadDim / 16; k += 2) {
    uint32_t codes[4];
    ptx::load_matrices(codes, keys + pair_offset(offset, k / 2));
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const Bf16Pairs upper = widen_pairs(exchange_codes(codes[2 * h]));
      const Bf16Pairs lower = widen_pairs(exchange_codes(codes[2 * h + 1]));
      const uint32_t a[4] = {upper.even, lower.even, upper.odd, lower.odd};
#pragma unroll
      for (int r = 0; r < Shape::kScoreRowTiles; ++r)
        ptx::multiply_tiles(scores[r], a, query[r][k + h][0], query[r][k + h][1]);
    }
  }
}

// Applies the soft cap and ALiBi to the scores of a tile, and sets those that a row does not see to
// -infinity.
template <typename Shape>
QUIRE_DEVICE void change_and_mask(const AttentionArgs& args, const DecodeWork& work, int32_t first,
                                  Scores<Shape>& scores) {
  const AttentionItem& item = work.item;
  if (changes_scores(args)) {
    for_each_score<Shape>(scores, [&](float& score, int row, int place) {
      const RowPlace at = row_place<Shape>(args, work, row);
      score = changed_score(args, item, at.head, at.position - (first + place), score);
    });
  }
  // In a pack every row sees all of the split.
  if constexpr (!Shape::kIsPacked) {
    const int32_t last_query = item.end - 1;
    if (first + kAttentionTile <= work.first_query + 1 &&
        first >= first_visible(args.cut, last_query))
      return;
    for_each_score<Shape>(scores, [&](float& score, int row, int place) {
      const int32_t query = item.first_position + (item.first_row + row) / args.cut.group;
      const int32_t position = first + place;
      if (position >= item.end || !is_visible(args, query, position)) score = -ptx::infinity();
    });
  }
}

// Returns where the warps write the greatest scores of the rows, for one of the tiles at once.
template <typename Shape>
QUIRE_DEVICE float* maxima_of(int tile) {
  return reinterpret_cast<float*>(ptx::shared_memory() + Shape::kMaxima) +
         tile * Shape::kRowTiles * 8 * Shape::kScoreWarps;
}
// Writes the greatest score of each row among the warp's positions of the tile.
template <typename Shape>
QUIRE_DEVICE void leave_maxima(int tile, const Scores<Shape>& scores) {
  const int lane = ptx::thread_index() % 32;
  float* const maxima = maxima_of<Shape>(tile);
#pragma unroll
  for (int r = 0; r < Shape::kScoreRowTiles; ++r) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float seen = -ptx::infinity();
#pragma unroll
      for (int m = 0; m < Shape::kScoreTiles; ++m)
        seen = ptx::max(seen, ptx::max(scores[m][r][j], scores[m][r][2 + j]));
#pragma unroll
      for (int mask = 4; mask <= 16; mask *= 2) seen = ptx::max(seen, ptx::shuffle_xor(seen, mask));
      const int row = (first_score_tile<Shape>() + r) * 8 + lane * 2 + j;
      if (lane < 4) maxima[row * Shape::kScoreWarps + score_warp<Shape>()] = seen;
    }
  }
}
// Updates the rows' maxima with what all warps have written. On return, `shrink` is the factor for
// the sums before the tile is added.
template <typename Shape>
QUIRE_DEVICE void raise_maxima(int tile, float factor, DecodeState<Shape>& state,
                               float (&shrink)[Shape::kRowTiles][2]) {
  const float* const maxima = maxima_of<Shape>(tile);
#pragma unroll
  for (int r = 0; r < Shape::kRowTiles; ++r) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float* row = maxima + (r * 8 + ptx::thread_index() % 4 * 2 + j) * Shape::kScoreWarps;
      float seen = row[0];
#pragma unroll
      for (int w = 1; w < Shape::kScoreWarps; ++w) seen = ptx::max(seen, row[w]);
      const float maximum = raised_maximum(state.maximum[r][j], ptx::multiply(seen, factor));
      shrink[r][j] = ptx::exp2_fast(ptx::add(state.maximum[r][j], -finite_maximum(maximum)));
      state.maximum[r][j] = maximum;
    }
  }
}
// Does both, for the whole block and a single tile.
template <typename Shape>
QUIRE_DEVICE void take_maxima(const Scores<Shape>& scores, float factor, DecodeState<Shape>& state,
                              float (&shrink)[Shape::kRowTiles][2]) {
  leave_maxima<Shape>(0, scores);
  ptx::sync_threads();
  raise_maxima<Shape>(0, factor, state, shrink);
}

// Multiplies sums and weights by `shrink`, which is 1 for most tiles.
template <typename Shape>
QUIRE_DEVICE void shrink_state(const float (&shrink)[Shape::kRowTiles][2],
                               DecodeState<Shape>& state) {
  bool shrinks = false;
#pragma unroll
  for (int r = 0; r < Shape::kRowTiles; ++r)
    shrinks = shrinks || shrink[r][0] != 1.0f || shrink[r][1] != 1.0f;
  if (ptx::ballot(shrinks) == 0) return;
#pragma unroll
  for (int r = 0; r < Shape::kRowTiles; ++r) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      state.weight[r][i] = ptx::multiply(state.weight[r][i], shrink[r][i % 2]);
#pragma unroll
      for (auto& tile : state.sums) tile[r][i] = ptx::multiply(tile[r][i], shrink[r][i % 2]);
    }
  }
}

// Return the maxima of the lane's two rows in each row tile.
template <typename Shape>
using RowMaxima = float[Shape::kRowTiles][2];

// Returns the maximum of row j of the lane in a row tile whose number is not a compile-time
// constant; registers cannot be indexed by such a number.
template <typename Shape>
QUIRE_DEVICE float maximum_of(const RowMaxima<Shape>& maxima, int row_tile, int j) {
  float maximum = maxima[0][j];
#pragma unroll
  for (int r = 1; r < Shape::kRowTiles; ++r) maximum = r == row_tile ? maxima[r][j] : maximum;
  return maximum;
}

// Returns where the softmax weights of one of the tiles at once are stored.
template <typename Shape>
QUIRE_DEVICE uint8_t* weights_of(int tile) {
  return ptx::shared_memory() + Shape::kWeights + tile * Shape::kRowTiles * 8 * kAttentionTile * 2;
}

// Turns scores into softmax weights, which all warps read from shared memory. `maxima` are those
// after this tile has raised them.
template <typename Shape>
QUIRE_DEVICE void weigh(int tile, const Scores<Shape>& scores, float factor,
                        const RowMaxima<Shape>& maxima) {
  const int warp = score_warp<Shape>();
  const int lane = ptx::thread_index() % 32;
#pragma unroll
  for (int r = 0; r < Shape::kScoreRowTiles; ++r) {
    const int row_tile = first_score_tile<Shape>() + r;
    const float base[2] = {finite_maximum(maximum_of<Shape>(maxima, row_tile, 0)),
                           finite_maximum(maximum_of<Shape>(maxima, row_tile, 1))};
#pragma unroll
    for (int m = 0; m < Shape::kScoreTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float* pair = scores[m][r] + 2 * i;
        const uint32_t packed = ptx::transpose_matrix(ptx::pack_bf16(
            softmax_weight(pair[0], factor, base[0]), softmax_weight(pair[1], factor, base[1])));
        const int at =
            swizzled_offset(row_tile * 8 + lane / 4, (m * Shape::kScoreWarps + warp) * 2 + i, 8);
        *reinterpret_cast<uint32_t*>(weights_of<Shape>(tile) + at + lane % 4 * 4) = packed;
      }
    }
  }
}

// Makes operands of the weights that all warps have written, and adds the weights up.
template <typename Shape>
QUIRE_DEVICE void take_weights(int tile, WeightOperands<Shape>& weights,
                               DecodeState<Shape>& state) {
  constexpr uint32_t kOnes[4] = {kBf16Ones, kBf16Ones, kBf16Ones, kBf16Ones};
  const int lane = ptx::thread_index() % 32;
#pragma unroll
  for (int r = 0; r < Shape::kRowTiles; ++r) {
#pragma unroll
    for (int m = 0; m < kAttentionTile / 16; m += 2) {
      uint32_t b[4];
      const int at = swizzled_offset(r * 8 + lane % 8, m * 2 + lane / 8, 8);
      ptx::load_matrices(b, weights_of<Shape>(tile) + at);
#pragma unroll
      for (int i = 0; i < 4; ++i) weights[m + i / 2][r][i % 2] = b[i];
    }
#pragma unroll
    for (int m = 0; m < kAttentionTile / 16; ++m)
      ptx::multiply_tiles(state.weight[r], kOnes, weights[m][r][0], weights[m][r][1]);
  }
}

// Adds 16 values, multiplied by their weights.
template <typename Shape>
QUIRE_DEVICE void add_sums(const uint8_t* values, const uint32_t (&weights)[Shape::kRowTiles][2],
                           DecodeState<Shape>& state) {
  const int warp = ptx::thread_index() / 32;
  const int offset = chunks_first_offset<Shape>();
#pragma unroll
  for (int m = 0; m < Shape::kSumTiles; ++m) {
    uint32_t a[4];
    ptx::load_matrices_transposed(a, values + pair_offset(offset, warp * Shape::kSumTiles + m));
#pragma unroll
    for (int r = 0; r < Shape::kRowTiles; ++r)
      ptx::multiply_tiles(state.sums[m][r], a, weights[r][0], weights[r][1]);
  }
}

// Codes are transposed two at a time, so a lane gets two neighbouring dims of each position. In a
// tile of 16 dims the even dims take the place of the first eight.
template <typename Shape>
QUIRE_DEVICE void add_sums_of_codes(const uint8_t* values,
                                    const uint32_t (&weights)[Shape::kRowTiles][2],
                                    DecodeState<Shape>& state) {
  const int warp = ptx::thread_index() / 32;
  const int offset = rows_first_offset<Shape>();
  constexpr int kTiles = Shape::kSumTiles;
#pragma unroll
  for (int m = 0; m < kTiles; m += 2) {
    uint32_t codes[4];  // of two tiles, or of the warp's only tile and another's
    ptx::load_matrices_transposed(codes, values + pair_offset(offset, (warp * kTiles + m) / 2));
#pragma unroll
    for (int h = 0; h < 2 && m + h < kTiles; ++h) {
      const bool upper = kTiles == 1 ? warp % 2 == 1 : h == 1;
      const Bf16Pairs low = widen_pairs(upper ? codes[2] : codes[0]);
      const Bf16Pairs high = widen_pairs(upper ? codes[3] : codes[1]);
      const uint32_t a[4] = {low.even, low.odd, high.even, high.odd};
#pragma unroll
      for (int r = 0; r < Shape::kRowTiles; ++r)
        ptx::multiply_tiles(state.sums[m + h][r], a, weights[r][0], weights[r][1]);
    }
  }
}

// Computes the scores of the warp's positions of a tile.
template <typename Shape>
QUIRE_DEVICE void score_keys(const uint8_t* keys, const QueryOperands<Shape>& query,
                             Scores<Shape>& scores) {
  const int warp = score_warp<Shape>();
#pragma unroll
  for (int m = 0; m < Shape::kScoreTiles; ++m) {
#pragma unroll
    for (auto& rows : scores[m]) {
#pragma unroll
      for (float& score : rows) score = 0.0f;
    }
    const uint8_t* rows = keys + (m * Shape::kScoreWarps + warp) * 16 * Shape::kRowBytes;
    if constexpr (Shape::kIsFp8) {
      add_scores_of_codes<Shape>(rows, query, scores[m]);
    } else {
      add_scores<Shape>(rows, query, scores[m]);
    }
  }
}

template <typename Shape>
QUIRE_DEVICE void add_values(const uint8_t* values, const WeightOperands<Shape>& weights,
                             DecodeState<Shape>& state) {
#pragma unroll
  for (int m = 0; m < kAttentionTile / 16; ++m) {
    const uint8_t* rows = values + m * 16 * Shape::kRowBytes;
    if constexpr (Shape::kIsFp8) {
      add_sums_of_codes<Shape>(rows, weights[m], state);
    } else {
      add_sums<Shape>(rows, weights[m], state);
    }
  }
}

}  // namespace quire::cuda
