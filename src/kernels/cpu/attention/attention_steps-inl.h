// The walks over an item's tiles: in which order rows and tiles are multiplied, and where the keys
// and values of a tile are.
#pragma once

#include "kernels/cpu/attention/attention_cache-inl.h"
#include "kernels/cpu/attention/attention_rows-inl.h"
#include "kernels/cpu/attention/attention_scratch-inl.h"
#include "kernels/cpu/attention/attention_tile-inl.h"
#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

// Returns the view of a tile in the cache itself, which must have whole chunks of 16 positions in
// one block and whole vectors of 16 dims. The pointers of chunks outside the tile's range are those
// of its first chunk: such chunks are never read, but they can be prefetched.
template <class Cache>
static TileView<typename Cache::Element> view_cache(const AttentionItem& item,
                                                    const TileRange& range) {
  using Element = typename Cache::Element;
  const int64_t size = item.block_size;
  TileView<Element> view;
  view.key_stride = size * Cache::kWidth;
  view.value_stride = int64_t{item.value_dim} * Cache::kWidth;
  for (int c = 0; c < kChunks; ++c) {
    const int column = 16 * c < range.end && c >= range.begin / 16 ? 16 * c : range.begin;
    const int64_t position = (range.start + column) / 16 * 16;
    const int64_t block = item.block_table[position / size] * item.block_stride;
    const int64_t offset = position % size;
    const Element* key = static_cast<const Element*>(item.key) + block;
    const Element* value = static_cast<const Element*>(item.value) + block;
    view.key[c] = key + offset * Cache::kWidth;
    view.value[c] = value + offset * item.head_dim;
    view.key_run[c] = key + offset * item.head_dim;
    view.value_run[c] = view.value[c];
    view.key_scale[c] = nullptr;
    view.value_scale[c] = nullptr;
    if (item.key_token_scale != nullptr) {
      view.key_scale[c] = item.key_token_scale + block / 2 + offset;
      view.value_scale[c] = item.value_token_scale + block / 2 + offset;
    }
  }
  return view;
}

template <class Copied>
static TileView<typename Copied::Element> view_scratch(const AttentionItem& item,
                                                       const ItemShape& shape, const Scratch& s) {
  using Element = typename Copied::Element;
  TileView<Element> view;
  view.key_stride = kAttentionTile * Copied::kWidth;
  view.value_stride = shape.v16 * Copied::kWidth;
  for (int c = 0; c < kChunks; ++c) {
    view.key[c] = reinterpret_cast<const Element*>(s.keys) + 16 * Copied::kWidth * c;
    view.value[c] = reinterpret_cast<const Element*>(s.values) + 16 * shape.v16 * c;
    view.key_run[c] = view.key[c];
    view.value_run[c] = view.value[c];
    const bool scaled = item.key_token_scale != nullptr;
    view.key_scale[c] = scaled ? s.key_scale + 16 * c : nullptr;
    view.value_scale[c] = scaled ? s.value_scale + 16 * c : nullptr;
  }
  return view;
}

// Returns the groups of at most kRowBlock rows per KV head.
template <AttentionTraits Traits>
QUIRE_SIMD int64_t num_groups(const ItemShape& shape) {
  return (shape.head_rows + Traits::kRowBlock - 1) / Traits::kRowBlock;
}

// Makes a step from one group of rows of a KV head. Groups are of about equal size.
template <AttentionTraits Traits, class Element>
static Step<Element> make_step(const AttentionItem& item, const ItemShape& shape, const Scratch& s,
                               const Tile<Element>* tile, int64_t head, int64_t group,
                               int64_t index) {
  const int64_t groups = num_groups<Traits>(shape);
  const int64_t per_group = shape.head_rows / groups;
  const int64_t larger = shape.head_rows % groups;
  const int64_t row = group * per_group + (group < larger ? group : larger);
  const int64_t first = head * shape.head_rows + row;
  const int64_t slot = index % kStepsInFlight * kAttentionMaxRowBlock;
  const Element* const* keys = tile->view.key_run;  // read anyway, until next() sets it
  const Element* const* values = tile->view.value_run;
  return {.tile = tile,
          .head_offset = 0,
          .scale_offset = 0,
          .scale = head_scale(item, shape, head),
          .num_rows = per_group + (group < larger ? 1 : 0),
          .query = s.query + first * shape.d16,
          .acc = s.acc + first * shape.v16,
          .max = s.max + first,
          .sum = s.sum + first * 16,
          .alibi = has_biases(item) ? s.alibi + first : nullptr,
          .bias = item.position_bias == nullptr ? nullptr : s.bias + first,
          .position = s.position + row,
          .end = s.end + row,
          .weights = s.weights + slot * kAttentionTile,
          .rescale = s.rescale + slot,
          .keys_ahead = {keys[0], keys[1], keys[2], keys[3]},
          .values_ahead = {values[0], values[1], values[2], values[3]}};
}

// Computes scores, softmax and weighted sum of each step that next(index, &step) gives. The three
// are at different steps at any time, so that none waits for the results that were just computed.
template <AttentionTraits Traits, class Cache, class Next>
static void run_steps(const RowShape& shape, Next&& next) {
  using Element = typename Cache::Element;
  Step<Element> ring[4];  // steps n - 2 .. n
  int64_t end = -1;       // the number of steps, once it is known
  for (int64_t n = 0; end < 0 || n < end + 2; ++n) {
    if (end < 0 && !next(n, &ring[n % 4])) end = n;
    if (end < 0) {
      const Step<Element>& step = ring[n % 4];
      pick_rows<Traits, Cache>(step.num_rows).score(shape, step);
    }
    if (n >= 1 && (end < 0 || n - 1 < end)) {
      const Step<Element>& step = ring[(n - 1) % 4];
      pick_rows<Traits, Cache>(step.num_rows).weigh(shape, step);
    }
    if (n >= 2 && (end < 0 || n - 2 < end)) {
      const Step<Element>& step = ring[(n - 2) % 4];
      pick_rows<Traits, Cache>(step.num_rows).add(shape, step);
    }
  }
}

// Fetches a whole tile. It is for the first one, which no earlier step can fetch.
template <class Cache>
static void fetch_tile(const AttentionItem& item, const Tile<typename Cache::Element>& tile) {
  using Element = typename Cache::Element;
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(Element));
  const int64_t head_stride = int64_t{item.head_dim} * item.block_size;
  for (int side = 0; side < 2; ++side) {
    const Element* const* runs = side == 0 ? tile.view.key_run : tile.view.value_run;
    for (int c = 0; c < kChunks; ++c) {
      for (int64_t head = 0; head < item.num_kv_heads; ++head) {
        const Element* run = runs[c] + head * head_stride;
        for (int64_t i = 0; i < int64_t{item.head_dim} * 16; i += kLine) prefetch_l2(run + i);
      }
    }
  }
}

// Walks over positions [begin, end) in the cache itself: tile by tile, and in each tile over all KV
// heads.
//
// During the steps of a tile, the heads of the next tile are fetched in the order of memory: with
// blocks of 16 positions block by block and in each all heads, otherwise head by head. So fetches
// are a tile ahead and in long runs.
template <AttentionTraits Traits, class Cache>
class DirectWalk {
 public:
  using Element = typename Cache::Element;

  DirectWalk(const AttentionItem& item, const ItemShape& shape, const Scratch& s, int32_t begin,
             int32_t end)
      : item_(item), shape_(shape), s_(s), end_(end) {
    const int32_t first = shape.window_begin > begin ? shape.window_begin : begin;
    next_start_ = first / kAttentionTile * kAttentionTile;
    if (set_tile(0)) fetch_tile<Cache>(item, tiles_[0]);
  }

  bool next(int64_t index, Step<Element>* step) {
    if (head_ == 0 && group_ == 0) {
      if (!has_next_) return false;
      ++tile_;
      set_tile(tile_ + 1);
    }
    *step = make_step<Traits>(item_, shape_, s_, &tiles_[tile_ % kTiles], head_, group_, index);
    const int64_t head_stride = int64_t{item_.head_dim} * item_.block_size;
    step->head_offset = head_ * head_stride;
    step->scale_offset = head_ * item_.block_size;
    if (has_next_ && group_ == 0) {
      const TileView<Element>& ahead = tiles_[(tile_ + 1) % kTiles].view;
      for (int c = 0; c < kChunks; ++c) {
        const int64_t run = kChunks * head_ + c;
        const int64_t chunk = heads_lie_together_ ? run / item_.num_kv_heads : c;
        const int64_t head = heads_lie_together_ ? run % item_.num_kv_heads : head_;
        step->keys_ahead[c] = ahead.key_run[chunk] + head * head_stride;
        step->values_ahead[c] = ahead.value_run[chunk] + head * head_stride;
      }
    }
    if (++group_ == num_groups<Traits>(shape_)) {
      group_ = 0;
      head_ = head_ + 1 < item_.num_kv_heads ? head_ + 1 : 0;
    }
    return true;
  }

 private:
  static constexpr int kTiles = 4;  // the tiles of the steps in flight, and the next one

  bool set_tile(int64_t index) {
    has_next_ = next_start_ < end_;
    if (!has_next_) return false;
    Tile<Element>& tile = tiles_[index % kTiles];
    tile.range = range_at(shape_, next_start_, end_);
    tile.masked = is_masked(shape_, tile.range);
    tile.view = view_cache<Cache>(item_, tile.range);
    next_start_ += kAttentionTile;
    return true;
  }

  const AttentionItem& item_;
  const ItemShape& shape_;
  const Scratch& s_;
  const int32_t end_;
  const bool heads_lie_together_ = item_.block_size == 16;
  Tile<Element> tiles_[kTiles];
  int32_t next_start_;
  int64_t tile_ = -1;  // the tile of the steps that next() gives
  bool has_next_ = false;
  int64_t head_ = 0;
  int64_t group_ = 0;
};

template <AttentionTraits Traits, class Cache>
static void attend_direct(const AttentionItem& item, const ItemShape& shape, const RowShape& rows,
                          const Scratch& s, int32_t begin, int32_t end) {
  DirectWalk<Traits, Cache> walk(item, shape, s, begin, end);
  run_steps<Traits, Cache>(rows, [&](int64_t index, Step<typename Cache::Element>* step) {
    return walk.next(index, step);
  });
}

// Walks over the same positions, but copies one tile of one KV head at a time.
template <AttentionTraits Traits, class Cache>
static void attend_copied(const AttentionItem& item, const ItemShape& shape, const RowShape& rows,
                          const Scratch& s, int32_t begin, int32_t end) {
  using Copied = typename Cache::Copied;
  using Element = typename Copied::Element;
  Tile<Element> tile;
  tile.view = view_scratch<Copied>(item, shape, s);
  for (int32_t start = begin; start < end; start += kAttentionTile) {
    tile.range = range_at(shape, start, end);
    if (tile.range.begin >= tile.range.end) continue;
    tile.masked = is_masked(shape, tile.range);
    for (int64_t head = 0; head < item.num_kv_heads; ++head) {
      copy_tile<Cache>(item, shape, s, tile.range, head);
      run_steps<Traits, Copied>(rows, [&](int64_t index, Step<Element>* step) {
        if (index >= num_groups<Traits>(shape)) return false;
        *step = make_step<Traits>(item, shape, s, &tile, head, index, index);
        return true;
      });
    }
  }
}

}  // namespace
}  // namespace quire
