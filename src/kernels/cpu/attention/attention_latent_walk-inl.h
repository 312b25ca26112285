// The walk of up to one tile of rows over latents, which are read in place.
#pragma once

#include "kernels/cpu/attention/attention_operands-inl.h"
#include "kernels/cpu/attention/attention_rows-inl.h"
#include "kernels/cpu/attention/attention_softmax-inl.h"
#include "kernels/cpu/attention/attention_tile_products-inl.h"
#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/simd/tiles-inl.h"

namespace quire {
namespace {

// Fetches the latents of an item tile by tile. A tile is four runs of memory, and each call of
// advance() continues with the next run in turn. The hardware reads ahead only within a page, so
// this makes it read ahead in four pages at once (with runs of 18 KB a core reads 14 GB/s instead
// of 11).
class LatentAhead {
 public:
  LatentAhead(const AttentionItem& item, int64_t element_bytes, int32_t begin, int32_t end)
      : item_(item),
        run_bytes_(16 * element_bytes * item.head_dim),
        block_bytes_(element_bytes * item.block_stride),
        end_(end) {
    set_tile(begin / kAttentionTile * kAttentionTile);
  }

  int64_t tile_lines() const { return (kChunks * run_bytes_ + 63) / 64; }

  inline __attribute__((always_inline)) void advance(int64_t lines) {
    const char* at = run_[next_] + offset_;
    for (int64_t i = 0; i < lines; ++i) prefetch_l2(at + 64 * i);
    if (++next_ < kChunks) return;
    next_ = 0;
    offset_ += 64 * lines;
    if (offset_ >= run_bytes_) set_tile(tile_ + kAttentionTile);
  }

 private:
  // Runs that start after the end are replaced by the last run before it.
  void set_tile(int32_t tile) {
    tile_ = tile;
    offset_ = 0;
    for (int c = 0; c < kChunks; ++c) {
      const int32_t position = tile + 16 * c < end_ ? tile + 16 * c : (end_ - 1) / 16 * 16;
      const int64_t position_bytes = run_bytes_ / 16;
      run_[c] = static_cast<const char*>(item_.key) +
                item_.block_table[position / item_.block_size] * block_bytes_ +
                position % item_.block_size * position_bytes;
    }
  }

  const AttentionItem& item_;
  const int64_t run_bytes_, block_bytes_;
  const int32_t end_;
  int32_t tile_ = 0;
  int64_t offset_ = 0;  // the same in all four runs
  int next_ = 0;
  const char* run_[kChunks];
};

// Memory is the limit here, so each step of the products fetches a share of a tile's lines. Scores
// stay in registers over all dims. Values are transposed 16 dims at a time while the tile unit
// multiplies the 16 dims before, and never leave the first-level cache.
template <class Cache>
class LatentWalk {
 public:
  LatentWalk(Tiles& tiles, const TileItem& t, const TileScratch& s, int32_t begin, int32_t end)
      : tiles_(tiles), t_(t), s_(s), ahead_(t.item, sizeof(typename Cache::Element), begin, end) {
    const int64_t steps = kChunks * (t.d32 / 32) + 2 * (t.item.value_dim / 16);
    tile_step_lines_ = (ahead_.tile_lines() + steps - 1) / steps;
    step_lines_ = 2 * tile_step_lines_;
    for (int c = 0; c < kChunks; ++c) ahead_.advance(step_lines_);
  }

  void attend(int32_t begin, int32_t end) {
    bool starts = true;
    for (int32_t start = begin; start < end; start += kAttentionTile) {
      const TileRange range = range_at(t_.shape, start, end);
      if (range.begin >= range.end) continue;
      score(range);
      weigh(range, starts);
      add_values(range, starts);
      starts = false;
      step_lines_ = tile_step_lines_;
    }
    if (starts) clear_sums(t_, s_, 0, t_.slots);
  }

 private:
  void score(const TileRange& range) {
    const int first = range.begin / 16;
    const int end = (range.end + 15) / 16;
    for (int c = first; c < end; ++c) {
      keys_[c] = key_operands(CacheHead<Cache>{t_.item, 0}, range.start + 16 * c,
                              range.start + range.begin, range.start + range.end,
                              s_.keys + c * 16 * t_.d32);
    }
    int c = first;
    if (c + 4 <= end) return score_chunks<4>(c);
    for (; c + 2 <= end; c += 2) score_chunks<2>(c);
    if (c < end) score_chunks<1>(c);
  }

  template <int CHUNKS>
  void score_chunks(int chunk) {
    tiles_.template zero<kSum0>();
    if (CHUNKS > 1) tiles_.template zero<kSum1>();
    if (CHUNKS > 2) tiles_.template zero<kRows10>();
    if (CHUNKS > 2) tiles_.template zero<kRows11>();
    for (int64_t step = 0; step < t_.d32 / 32; ++step) {
      tiles_.template load<kRows00>(s_.query + 32 * step, t_.d32 * 2);
      add_score<kSum0>(chunk, step);
      if (CHUNKS > 1) add_score<kSum1>(chunk + 1, step);
      if (CHUNKS > 2) add_score<kRows10>(chunk + 2, step);
      if (CHUNKS > 2) add_score<kRows11>(chunk + 3, step);
    }
    store_scores<kSum0>(chunk);
    if (CHUNKS > 1) store_scores<kSum1>(chunk + 1);
    if (CHUNKS > 2) store_scores<kRows10>(chunk + 2);
    if (CHUNKS > 2) store_scores<kRows11>(chunk + 3);
  }
  template <int SUM>
  void add_score(int chunk, int64_t step) {
    const Operands& keys = keys_[chunk];
    tiles_.template load<kColumns0>(static_cast<const uint16_t*>(keys.first) + step * keys.step,
                                    keys.stride);
    tiles_.template dot_bf16<SUM, kRows00, kColumns0>();
    ahead_.advance(step_lines_);
  }
  template <int SUM>
  void store_scores(int chunk) {
    tiles_.template store<SUM>(s_.scores + 16 * chunk, kAttentionTile * 4);
  }

  void weigh(const TileRange& range, bool starts) {
    const SoftmaxTile tile = softmax_tile(t_, s_, range);
    if (tile.key_scales != nullptr) {
      copy_token_scales(t_.item, range, 0, s_.key_scales, s_.value_scales);
    }
    const bool moved = softmax_rows<kTileRows>(tile, softmax_view(s_, 0, t_.slots, 0));
    if (moved && !starts) rescale_sums(t_, s_, 0, t_.slots);
  }

  void add_values(const TileRange& range, bool starts) {
    load_rows<1, kValueOperands>(tiles_, s_.weights, kAttentionTile);
    const int64_t dims = t_.item.value_dim;
    for (int64_t dim = 0; dim < dims + 16; dim += 16) {
      if (dim < dims) {
        uint16_t* to = values_of(dim);
        turn_dims(keys_, range, dim, {to, to + kOperandElements});
        ahead_.advance(step_lines_);
      }
      if (dim == 0) continue;
      multiply_rows<1, kValueOperands>(tiles_, values_of(dim - 16), 64, kOperandElements,
                                       s_.acc + dim - 16, t_.shape.v16, starts);
      ahead_.advance(step_lines_);
    }
  }
  // There are two buffers: the values of 16 dims are multiplied while the next 16 are transposed.
  uint16_t* values_of(int64_t dim) const {
    return s_.values + dim / 16 % 2 * kValueOperands * kOperandElements;
  }

  Tiles& tiles_;
  const TileItem& t_;
  const TileScratch& s_;
  Operands keys_[kChunks] = {};  // of the tile
  LatentAhead ahead_;
  // Each step of a product fetches step_lines_ lines: tile_step_lines_ of the next tile, and during
  // the first tile twice as many.
  int64_t tile_step_lines_, step_lines_;
};

}  // namespace
}  // namespace quire
