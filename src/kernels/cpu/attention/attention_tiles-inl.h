// Paged attention on tile products, for caches in pairs (bf16, fp8, int8).
//
// A context is cut into tiles of 64 positions in splits of 512, at absolute positions. A row is
// reduced in this order: scores in steps of 32 dims, with zeros where a head has fewer; weights by
// lane; values in steps of 32 positions, with zeros where there is none; tiles ascending within a
// split, then the lanes as a tree; splits ascending. The rows of a tile product do not affect each
// other, so few rows (a decode step) and many (a prompt) get the same operations in either walk.
#pragma once

#include "kernels/cpu/attention/attention_cache-inl.h"
#include "kernels/cpu/attention/attention_codes-inl.h"
#include "kernels/cpu/attention/attention_latent_walk-inl.h"
#include "kernels/cpu/attention/attention_rows-inl.h"
#include "kernels/cpu/attention/attention_tile_products-inl.h"
#include "kernels/cpu/attention/attention_tile_walks-inl.h"
#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/simd/tiles-inl.h"

namespace quire {
namespace {

template <class Walk>
static void attend_splits(const TileItem& t, const TileScratch& s, Walk& walk) {
  for (int32_t split = t.item.first_split; split < t.item.end_split; ++split) {
    begin_split(t, s);
    walk.attend(split * kAttentionSplit, split_end(t.shape, split));
    finish_split(t, s);
  }
}

template <class Cache>
static void attend(const AttentionItem& item) {
  const TileItem t = tile_item(item);
  const TileScratch s = carve_tiles(t);
  gather_slots(t, s);
  Tiles tiles(attention_tile_shapes(t.head_slots));
  const int32_t first_split = item.first_split * kAttentionSplit;
  const int32_t begin = t.shape.window_begin > first_split ? t.shape.window_begin : first_split;
  const int32_t end = split_end(t.shape, item.end_split - 1);
  if (item.value == nullptr && t.head_slots <= kTileRows) {
    LatentWalk<Cache> walk(tiles, t, s, begin, end);
    attend_splits(t, s, walk);
  } else if (t.head_slots < kTileRows) {
    FewRowsWalk<Cache> walk(tiles, t, s, begin, end);
    attend_splits(t, s, walk);
  } else {
    ManyRowsWalk<Cache> walk(tiles, t, s);
    attend_splits(t, s, walk);
  }
  if (item.partials != nullptr) return;
  for_each_slot(t, [&](int64_t slot, int64_t, int64_t head, int64_t token) {
    write_row(item, {s.out + slot * t.shape.v16, s.out_max + slot, s.out_sum + slot}, head, token);
  });
}

// The table that the object files of AMX and of its emulation export.
constexpr cpu::AttentionKernels kAttentionOverTiles = {
    .item_rows = cpu::kAttentionMaxRows,
    .item = {nullptr, &attend<CacheBf16>, nullptr, &attend<CacheE4M3>, &attend<CacheE5M2>,
             &attend<CacheInt8>},
    .combine = &combine,
};

}  // namespace
}  // namespace quire
