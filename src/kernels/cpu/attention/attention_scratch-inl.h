// The scratch memory of an item, and the functions that copy a tile's keys and values to it. They
// are for blocks or head sizes that are not multiples of 16, and for many rows, where a copy saves
// conversions.
#pragma once

#include "kernels/cpu/attention/attention_cache-inl.h"
#include "kernels/cpu/attention/attention_codes-inl.h"
#include "kernels/cpu/attention/attention_latent-inl.h"
#include "kernels/cpu/attention/attention_rows-inl.h"
#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

using cpu::kAttentionMaxRowBlock;

// The steps between the scores of some rows and the weighted sum of their values.
constexpr int kStepsInFlight = cpu::kAttentionStepsInFlight;

// The arrays of an item in its scratch.
struct Scratch {
  float* query;           // [rows, D16] operands
  float* acc;             // [rows, V16] of the current split
  float* out;             // [rows, V16] of the splits so far
  float* max;             // [rows] of the current split; readable for 16 from any row on
  float* sum;             // [rows, 16]
  float* out_max;         // [rows] of the splits so far
  float* out_sum;         // [rows]
  float* alibi;           // [rows] the ALiBi slope, or the factor of biases
  const float** bias;     // [rows] biases of the row's head
  int32_t* position;      // [rows of one KV head]
  int32_t* end;           // [rows of one KV head] one past what each sees
  float* weights;         // [kStepsInFlight, row block, 64]
  float* rescale;         // [kStepsInFlight, row block]
  float* keys;            // [D, 64] a tile's copy, in the cache's layout with S = 64
  float* values;          // [64, V16]
  uint16_t* key_scale;    // [64] bf16, for a tile's copy
  uint16_t* value_scale;  // [64]
};

QUIRE_SIMD Scratch carve(float* memory, int64_t rows, int64_t d16) {
  const int64_t rows16 = round_up(rows, 16);
  float* next = memory;
  const auto take = [&](int64_t n) {
    float* mine = next;
    next += n;
    return mine;
  };
  Scratch s;
  s.query = take(rows * d16);
  s.acc = take(rows * d16);
  s.out = take(rows * d16);
  s.sum = take(rows * 16);
  s.max = take(rows16);
  s.out_max = take(rows16);
  s.out_sum = take(rows16);
  s.alibi = take(rows16);
  s.bias = reinterpret_cast<const float**>(take(2 * rows16));
  s.position = reinterpret_cast<int32_t*>(take(rows16));
  s.end = reinterpret_cast<int32_t*>(take(rows16));
  s.rescale = take(kStepsInFlight * kAttentionMaxRowBlock);
  s.weights = take(kStepsInFlight * kAttentionMaxRowBlock * kAttentionTile);
  s.keys = take(kAttentionTile * d16);
  s.values = take(kAttentionTile * d16);
  s.key_scale = reinterpret_cast<uint16_t*>(take(kAttentionTile / 2));
  s.value_scale = reinterpret_cast<uint16_t*>(take(kAttentionTile / 2));
  return s;
}

// Copies `n` rows of `width` 16-bit elements; the rest of each row of `to` is zeroed up to
// `to_width`.
[[maybe_unused]] static void copy_rows(const uint16_t* from, int64_t from_stride, uint16_t* to,
                                       int64_t to_stride, int64_t n, int64_t width,
                                       int64_t to_width) {
  for (int64_t i = 0; i < n; ++i) {
    __builtin_memcpy(to + i * to_stride, from + i * from_stride,
                     static_cast<size_t>(width) * sizeof(uint16_t));
    __builtin_memset(to + i * to_stride + width, 0,
                     static_cast<size_t>(to_width - width) * sizeof(uint16_t));
  }
}

// A run of positions in one block, which is copied to columns of the tile's copy.
struct Run {
  int64_t block;   // element offset of this KV head
  int64_t scales;  // offset of its token scales, 16-bit elements
  int64_t offset;  // in the block
  int64_t column;
  int64_t count;
};

// Copies a run of bf16. Runs begin and end at pairs of positions; a position of a pair that is
// outside the range is replaced where values are used (keep_in_pair()).
[[maybe_unused]] static void copy_run(CacheBf16, const AttentionItem& item, const ItemShape& shape,
                                      const Scratch& s, const Run& run) {
  const auto* key = static_cast<const uint16_t*>(item.key) + run.block + run.offset * 2;
  copy_rows(key, item.block_size * int64_t{2}, reinterpret_cast<uint16_t*>(s.keys) + run.column * 2,
            kAttentionTile * 2, item.head_dim / 2, run.count * 2, run.count * 2);
  if (item.value == nullptr) return;
  const auto* value =
      static_cast<const uint16_t*>(item.value) + run.block + run.offset * item.head_dim;
  copy_rows(value, item.head_dim * int64_t{2},
            reinterpret_cast<uint16_t*>(s.values) + run.column * shape.v16, shape.v16 * 2,
            run.count / 2, item.head_dim * int64_t{2}, shape.v16 * 2);
}

// Loads n <= 16 elements; the other lanes are 0.
template <class Cache>
QUIRE_SIMD F16 load_some(const typename Cache::Element* p, int64_t n) {
  if (n >= 16) return Cache::load16(p);
  typename Cache::Element some[16] = {};
  __builtin_memcpy(some, p, static_cast<size_t>(n) * sizeof(some[0]));
  return Cache::load16(some);
}

// Decodes `pairs` pairs of codes to pairs of bf16.
template <class Cache>
static void copy_codes(const uint8_t* from, uint16_t* to, int64_t pairs) {
  int64_t i = 0;
  for (; i + 16 <= pairs; i += 16) store_pairs(to + 2 * i, Cache::load16(from + 2 * i));
  if (i == pairs) return;
  uint8_t codes[32] = {};
  uint16_t decoded[32];
  const auto left = static_cast<size_t>(pairs - i);
  __builtin_memcpy(codes, from + 2 * i, left * 2);
  store_pairs(decoded, Cache::load16(codes));
  __builtin_memcpy(to + 2 * i, decoded, left * 4);
}

template <class Cache>
static void copy_coded_values(const AttentionItem& item, const ItemShape& shape, const Scratch& s,
                              const Run& run) {
  const auto* value =
      static_cast<const uint8_t*>(item.value) + run.block + run.offset * item.head_dim;
  auto* values = reinterpret_cast<uint16_t*>(s.values) + run.column * shape.v16;
  for (int64_t j = 0; j < run.count / 2; ++j) {
    uint16_t* row = values + j * shape.v16 * 2;
    copy_codes<Cache>(value + j * item.head_dim * 2, row, item.head_dim);
    __builtin_memset(row + item.head_dim * 2, 0,
                     static_cast<size_t>(shape.v16 - item.head_dim) * 2 * sizeof(uint16_t));
  }
}

// Copies a run of 8-bit codes as bf16, and their scales.
template <class Cache>
static void copy_coded_run(const AttentionItem& item, const ItemShape& shape, const Scratch& s,
                           const Run& run) {
  const auto* key = static_cast<const uint8_t*>(item.key) + run.block + run.offset * 2;
  auto* keys = reinterpret_cast<uint16_t*>(s.keys) + run.column * 2;
  for (int64_t i = 0; i < item.head_dim / 2; ++i) {
    copy_codes<Cache>(key + i * item.block_size * 2, keys + i * kAttentionTile * 2, run.count);
  }
  if (item.value != nullptr) copy_coded_values<Cache>(item, shape, s, run);
  if (item.key_token_scale == nullptr) return;
  const int64_t at = run.scales + run.offset;
  const auto bytes = static_cast<size_t>(run.count) * sizeof(uint16_t);
  __builtin_memcpy(s.key_scale + run.column, item.key_token_scale + at, bytes);
  __builtin_memcpy(s.value_scale + run.column, item.value_token_scale + at, bytes);
}

// Copies a run of f32 or f16 as f32.
template <class Cache>
static void copy_run(Cache, const AttentionItem& item, const ItemShape& shape, const Scratch& s,
                     const Run& run) {
  using Element = typename Cache::Element;
  const Element* key = static_cast<const Element*>(item.key) + run.block + run.offset;
  for (int64_t d = 0; d < item.head_dim; ++d) {
    for (int64_t j = 0; j < run.count; j += 16) {
      const int64_t n = run.count - j < 16 ? run.count - j : 16;
      const F16 keys = load_some<Cache>(key + d * item.block_size + j, n);
      float* to = s.keys + d * kAttentionTile + run.column + j;
      n == 16 ? store(to, keys) : store_n(to, keys, n);
    }
  }
  if (item.value == nullptr) return;
  const Element* value =
      static_cast<const Element*>(item.value) + run.block + run.offset * item.head_dim;
  for (int64_t j = 0; j < run.count; ++j) {
    for (int64_t d = 0; d < shape.v16; d += 16) {
      store(s.values + (run.column + j) * shape.v16 + d,
            load_some<Cache>(value + j * item.head_dim + d, item.head_dim - d));
    }
  }
}

// Makes the values of a latent cache from the tile's keys in scratch.
template <class Copied>
static void turn_tile(const ItemShape& shape, const Scratch& s, const TileRange& tile) {
  using Element = typename Copied::Element;
  constexpr int64_t kWidth = Copied::kWidth;
  for (int c = tile.begin / 16; 16 * c < tile.end; ++c) {
    const Element* keys = reinterpret_cast<const Element*>(s.keys) + 16 * kWidth * c;
    Element* values = reinterpret_cast<Element*>(s.values) + 16 * shape.v16 * c;
    for (int64_t d = 0; d < shape.v16; d += 16) {
      turn_keys(keys + d * kAttentionTile, kAttentionTile * kWidth, values + d * kWidth,
                shape.v16 * kWidth);
    }
  }
}

// Copies a tile to scratch.
template <class Cache>
static void copy_tile(const AttentionItem& item, const ItemShape& shape, const Scratch& s,
                      const TileRange& tile, int64_t head) {
  const int end = (tile.end + Cache::kWidth - 1) / Cache::kWidth * Cache::kWidth;
  int column = tile.begin / Cache::kWidth * Cache::kWidth;
  while (column < end) {
    const int64_t position = tile.start + column;
    const int64_t offset = position % item.block_size;
    const int64_t left = end - column;
    const int64_t count = item.block_size - offset < left ? item.block_size - offset : left;
    const int64_t block = item.block_table[position / item.block_size] * item.block_stride;
    const Run run{.block = block + head * item.head_dim * item.block_size,
                  .scales = block / 2 + head * item.block_size,
                  .offset = offset,
                  .column = column,
                  .count = count};
    if constexpr (sizeof(typename Cache::Element) == 1) {
      copy_coded_run<Cache>(item, shape, s, run);
    } else {
      copy_run(Cache{}, item, shape, s, run);
    }
    column += static_cast<int>(count);
  }
  if (item.value == nullptr) turn_tile<typename Cache::Copied>(shape, s, tile);
}

}  // namespace
}  // namespace quire
