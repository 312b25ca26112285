// Decode attention for so few rows that a block has an SM to itself or shares it with one other
// block. The time then depends on how long a row takes for one tile after another. Twice as many
// warps take two tiles of 64 positions at once: they compute the scores at the same time, and
// maxima and sums in order. So a row has the same bits as in a block that takes one tile after
// another.
#pragma once

#include "kernels/cuda/attention/decode_rows.h"

namespace quire::cuda {

// The sizes and the shared memory: a ring of three slots, each with two tiles of keys or of values,
// and behind them, for both tiles, what DecodeShape has there for one. Rows are one tile of eight.
template <int kHeadDim, bool kFp8>
struct PairShape : DecodeShape<kHeadDim, kFp8, 1> {
  using Base = DecodeShape<kHeadDim, kFp8, 1>;
  static constexpr int kTilesAtOnce = 2;
  static constexpr int kWarps = kTilesAtOnce * Base::kWarps;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kSlots = 3;
  static constexpr int kSlotBytes = kTilesAtOnce * Base::kTileBytes;
  static constexpr int kWeights = kSlots * kSlotBytes;
  static constexpr int kMaxima = kWeights + kTilesAtOnce * 8 * kAttentionTile * 2;
  static constexpr int kWork = kMaxima + kTilesAtOnce * 8 * Base::kScoreWarps * 4;
  static constexpr int kSharedBytes = kWork + 128;  // a DecodeWork
  static constexpr int kSumTiles = kHeadDim / 16 / kWarps;
};

// A PairRing delivers the tiles of a work in order: the keys of two tiles, their values, the keys
// of the next two.
template <typename Shape>
class PairRing {
 public:
  QUIRE_DEVICE PairRing(const AttentionArgs& args, const DecodeWork& work,
                        TileFetcher<Shape>& fetcher)
      : args_(args), fetcher_(fetcher), first_(work.begin / kAttentionTile), end_(first_) {
    if (work.end > work.begin) end_ = (work.end - 1) / kAttentionTile + 1;
  }

  QUIRE_DEVICE int32_t first_tile() const { return first_; }
  QUIRE_DEVICE int32_t end_tile() const { return end_; }

  // Starts copying keys or values of two tiles, of which one or none may exist, as one group of
  // copies. The slot that was taken before the last one must no longer be read.
  QUIRE_DEVICE void fetch_keys(int32_t tile) { fetch(args_.key, tile); }
  QUIRE_DEVICE void fetch_values(int32_t tile) { fetch(args_.value, tile); }

  // Returns the next two tiles, when all but the last `kPending` groups have been copied. After it,
  // the whole block sees what any thread wrote to shared memory before.
  template <int kPending>
  QUIRE_DEVICE const uint8_t* take() {
    ptx::copy_async_wait<kPending>();
    ptx::sync_threads();
    return next_slot(taken_);
  }

 private:
  QUIRE_DEVICE static uint8_t* next_slot(int& slot) {
    uint8_t* const at = ptx::shared_memory() + slot * Shape::kSlotBytes;
    slot = slot + 1 == Shape::kSlots ? 0 : slot + 1;
    return at;
  }
  QUIRE_DEVICE void fetch(const uint8_t* cache, int32_t tile) {
    uint8_t* const to = next_slot(fetched_);
    fetcher_.move_to(tile * kAttentionTile);  // values come before the keys of the next pair
#pragma unroll 1
    for (int i = 0; i < 2 && tile + i < end_; ++i)
      fetcher_.copy_tile((tile + i) * kAttentionTile, cache, to + i * Shape::kTileBytes);
    ptx::copy_async_commit();
  }

  const AttentionArgs& args_;
  TileFetcher<Shape>& fetcher_;
  int32_t first_;
  int32_t end_;
  int fetched_ = 0;  // slots
  int taken_ = 0;
};

template <typename Shape>
QUIRE_DEVICE void decode_pairs(const AttentionArgs& args, const DecodeWork& work,
                               const QueryOperands<Shape>& query, TileFetcher<Shape>& fetcher,
                               DecodeState<Shape>& state) {
  const float factor = score_factor(args, work.item);
  const int own = ptx::thread_index() / 32 / Shape::kScoreWarps;  // the tile that this warp scores
  PairRing<Shape> ring(args, work, fetcher);
  ring.fetch_keys(ring.first_tile());
  ring.fetch_values(ring.first_tile());
#pragma unroll 1
  for (int32_t tile = ring.first_tile(); tile < ring.end_tile(); tile += 2) {
    const bool has_both = tile + 1 < ring.end_tile();
    const bool has_own = own == 0 || has_both;
    const uint8_t* keys = ring.template take<1>();
    ring.fetch_keys(tile + 2);
    Scores<Shape> scores = {};
    if (has_own) {
      score_keys<Shape>(keys + own * Shape::kTileBytes, query, scores);
      change_and_mask<Shape>(args, work, (tile + own) * kAttentionTile, scores);
      leave_maxima<Shape>(own, scores);
    }
    ptx::sync_threads();
    ring.fetch_values(tile + 2);
    float shrink[2][Shape::kRowTiles][2] = {};
    raise_maxima<Shape>(0, factor, state, shrink[0]);
    if (own == 0) weigh<Shape>(0, scores, factor, state.maximum);
    if (has_both) raise_maxima<Shape>(1, factor, state, shrink[1]);
    if (own == 1 && has_both) weigh<Shape>(1, scores, factor, state.maximum);
    const uint8_t* values = ring.template take<2>();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (i == 1 && !has_both) continue;
      shrink_state<Shape>(shrink[i], state);
      WeightOperands<Shape> weights;
      take_weights<Shape>(i, weights, state);
      add_values<Shape>(values + i * Shape::kTileBytes, weights, state);
    }
  }
}

}  // namespace quire::cuda
