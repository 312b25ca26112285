// The two walks over an item's tiles on the tile unit.
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

// Memory is fetched this far ahead of its use.
constexpr int64_t kFewRowsAheadBytes = 16384;

// The walk for few rows per KV head, where memory is the limit. All heads go through a tile
// together, because the heads of a block are contiguous and are so read in long runs. For each line
// that is used one further on is fetched.
template <class Cache>
class FewRowsWalk {
 public:
  FewRowsWalk(Tiles& tiles, const TileItem& t, const TileScratch& s, int32_t begin, int32_t end)
      : tiles_(tiles),
        t_(t),
        s_(s),
        ahead_(t.item, kElementBytes, 0, t.item.num_kv_heads, begin, end) {
    ahead_.advance(kFewRowsAheadBytes / 64);
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
    }
    if (starts) clear_sums(t_, s_, 0, t_.slots);
  }

 private:
  static constexpr int64_t kElementBytes = sizeof(typename Cache::Element);

  void score(const TileRange& range) {
    const int64_t chunk_lines = 16 * t_.item.head_dim * kElementBytes / 64;
    for (int c = range.begin / 16; 16 * c < range.end; ++c) {
      for (int64_t head = 0; head < t_.item.num_kv_heads; ++head) {
        ahead_.advance(chunk_lines);
        const Operands keys = key_operands(CacheHead<Cache>{t_.item, head}, range.start + 16 * c,
                                           range.start + range.begin, range.start + range.end,
                                           s_.keys + head % kChunks * 16 * t_.d32);
        const int64_t slot = head * t_.head_slots;
        score_columns<1>(tiles_, t_, s_.query + slot * t_.d32, keys, 1,
                         s_.scores + slot * kAttentionTile + 16 * c);
      }
    }
  }

  void weigh(const TileRange& range, bool starts) {
    const SoftmaxTile tile = softmax_tile(t_, s_, range);
    if (tile.key_scales != nullptr) {
      for (int64_t head = 0; head < t_.item.num_kv_heads; ++head) {
        copy_token_scales(t_.item, range, head, s_.key_scales + head * kAttentionTile,
                          s_.value_scales + head * kAttentionTile);
      }
    }
    for (int64_t slot = 0; slot < t_.slots; slot += kTileRows) {
      const int64_t n = t_.slots - slot < kTileRows ? t_.slots - slot : kTileRows;
      const bool moved = softmax_rows<kTileRows>(tile, softmax_view(s_, slot, n, slot));
      if (moved && !starts) rescale_sums(t_, s_, slot, n);
    }
  }

  // Copies the values of a head while the tile unit multiplies those of the head before. Tile loads
  // right after the stores would wait until these have reached the cache.
  void add_values(const TileRange& range, bool starts) {
    const int64_t pair_lines = (t_.item.head_dim * kElementBytes + 31) / 32;
    const int64_t heads = t_.item.num_kv_heads;
    for (int64_t head = 0; head <= heads; ++head) {
      if (head < heads) {
        copy_values(CacheHead<Cache>{t_.item, head}, range, values_of(head),
                    [&] { ahead_.advance(pair_lines); });
      }
      if (head == 0) continue;
      const int64_t slot = (head - 1) * t_.head_slots;
      add_weighted<1>(tiles_, t_, values_of(head - 1), s_.weights + slot * kAttentionTile,
                      s_.acc + slot * t_.shape.v16, starts);
    }
  }
  uint16_t* values_of(int64_t head) const {
    return s_.values + head % 2 * kAttentionTile * t_.shape.v16;
  }

  Tiles& tiles_;
  const TileItem& t_;
  const TileScratch& s_;
  Prefetcher ahead_;
};

// The walk for many rows per KV head, where the tile unit is the limit. The keys and values of a
// split are copied to operands once, and then multiplied by blocks of two tiles of rows, which fit
// in the first-level cache and the registers.
template <class Cache>
class ManyRowsWalk {
 public:
  ManyRowsWalk(Tiles& tiles, const TileItem& t, const TileScratch& s)
      : tiles_(tiles), t_(t), s_(s) {}

  void attend(int32_t begin, int32_t end) {
    const int64_t num_groups = t_.head_slots / kTileRows;
    for (int64_t head = 0; head < t_.item.num_kv_heads; ++head) {
      copy_split(head, begin, end);
      Prefetcher ahead(t_.item, sizeof(typename Cache::Element), head, 1, end,
                       split_end(t_.shape, begin / kAttentionSplit + 1));
      const int64_t slot = head * t_.head_slots;
      for (int64_t group = 0; group < num_groups; group += 2) {
        if (group + 1 < num_groups) {
          attend_block<2>(slot + group * kTileRows, begin, end, ahead);
        } else {
          attend_block<1>(slot + group * kTileRows, begin, end, ahead);
        }
      }
    }
  }

 private:
  // Chunks without any position keep their old contents, because their scores are masked.
  void copy_split(int64_t head, int32_t begin, int32_t end) {
    const CacheHead<Cache> cache{t_.item, head};
    for (int32_t start = begin; start < end; start += kAttentionTile) {
      const TileRange range = range_at(t_.shape, start, end);
      if (range.begin >= range.end) continue;
      const int64_t at = start - begin;
      for (int c = range.begin / 16; 16 * c < range.end; ++c) {
        copy_keys(cache, start + 16 * c, start + range.begin, start + range.end,
                  s_.keys + (at + 16 * c) * t_.d32);
      }
      copy_values_of(cache, range, at);
      if (t_.item.key_token_scale != nullptr) {
        copy_token_scales(t_.item, range, head, s_.key_scales + at, s_.value_scales + at);
      }
    }
  }

  void copy_values_of(const CacheHead<Cache>& cache, const TileRange& range, int64_t at) {
    uint16_t* values = s_.values + at * t_.shape.v16;
    if (t_.item.value != nullptr) return copy_values(cache, range, values, [] {});
    Operands keys[kChunks];
    for (int c = 0; c < kChunks; ++c) {
      keys[c] = {s_.keys + (at + 16 * c) * t_.d32, 64, kOperandElements};
    }
    turn_chunks(keys, range, t_.item.value_dim, values);
  }

  // Computes 16 GROUPS rows from `slot` on, and fetches memory of the next split meanwhile.
  template <int GROUPS>
  void attend_block(int64_t slot, int32_t begin, int32_t end, Prefetcher& ahead) {
    constexpr int64_t kBlockRows = GROUPS * kTileRows;
    const int32_t last_end = s_.end[slot + kBlockRows - 1];
    if (last_end < end) end = last_end;
    const int64_t split_lines =
        kAttentionSplit * t_.item.head_dim * int64_t{sizeof(typename Cache::Element)} / 32;
    const int64_t tile_lines =
        split_lines * kBlockRows / (t_.head_slots * (kAttentionSplit / kAttentionTile));
    bool starts = true;
    for (int32_t start = begin; start < end; start += kAttentionTile) {
      const TileRange range = range_at(t_.shape, start, end);
      if (range.begin >= range.end) continue;
      const int64_t at = start - begin;
      const Operands keys{s_.keys + at * t_.d32, 64, kOperandElements};
      score_columns<GROUPS>(tiles_, t_, s_.query + slot * t_.d32, keys, kChunks, s_.scores);
      weigh<GROUPS>(slot, range, at, starts);
      ahead.advance(tile_lines);
      add_weighted<GROUPS>(tiles_, t_, s_.values + at * t_.shape.v16, s_.weights,
                           s_.acc + slot * t_.shape.v16, starts);
      starts = false;
    }
    if (starts) clear_sums(t_, s_, slot, kBlockRows);
  }

  template <int GROUPS>
  void weigh(int64_t slot, const TileRange& range, int64_t at, bool starts) {
    SoftmaxTile tile = softmax_tile(t_, s_, range);
    if (tile.key_scales != nullptr) {
      tile.key_scales += at;
      tile.value_scales += at;
    }
    for (int64_t row = 0; row < GROUPS * kTileRows; row += kTileRows) {
      const bool moved =
          softmax_rows<kTileRows>(tile, softmax_view(s_, slot + row, kTileRows, row));
      if (moved && !starts) rescale_sums(t_, s_, slot + row, kTileRows);
    }
  }

  Tiles& tiles_;
  const TileItem& t_;
  const TileScratch& s_;
};

}  // namespace
}  // namespace quire
