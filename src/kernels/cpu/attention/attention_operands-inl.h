// Makes operands of tile products from the keys and values of a cache. An operand is 1 KB, [16
// pairs][16 columns][2] bf16. For scores the pairs are along the dims and columns are positions;
// for the weighted sum the pairs are along the positions and columns are dims.
#pragma once

#include "kernels/cpu/attention/attention_cache-inl.h"
#include "kernels/cpu/attention/attention_codes-inl.h"
#include "kernels/cpu/attention/attention_latent-inl.h"
#include "kernels/cpu/attention/attention_rows-inl.h"
#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/simd/tiles.h"

namespace quire {
namespace {

constexpr int64_t kOperandPairs = cpu::kTileRows;
constexpr int64_t kOperandElements = kOperandPairs * 32;
constexpr int kValueOperands = kAttentionTile / 32;  // along the positions of a tile

// Operands that are `step` elements apart. Their rows are `stride` bytes apart.
struct Operands {
  const void* first;
  int64_t stride;
  int64_t step;
};

// Finds the positions of one KV head in the cache.
template <class Cache>
struct CacheHead {
  using Element = typename Cache::Element;
  const AttentionItem& item;
  int64_t head;

  int64_t block(int32_t position) const {
    return item.block_table[position / item.block_size] * item.block_stride;
  }
  int64_t head_offset() const { return head * item.head_dim * item.block_size; }
  // Returns the first pair of dims of a key; the next is block_size pairs further on.
  const Element* key(int32_t position) const {
    return static_cast<const Element*>(item.key) + block(position) + head_offset() +
           position % item.block_size * int64_t{2};
  }
  // Returns the values of a pair of positions; the next pair is head_dim pairs further on in the
  // block.
  const Element* value(int32_t position) const {
    return static_cast<const Element*>(item.value) + block(position) + head_offset() +
           int64_t{position % item.block_size} * item.head_dim;
  }
};

// Copies the keys of 16 positions from `start` on to operands in `to`. Only [begin, end) exist;
// what is copied for other positions does not matter, because their scores are masked.
template <class Cache>
static void copy_keys(const CacheHead<Cache>& cache, int32_t start, int32_t begin, int32_t end,
                      uint16_t* to) {
  using Element = typename Cache::Element;
  const AttentionItem& item = cache.item;
  const int64_t pairs = item.head_dim / 2;
  const int64_t stride = item.block_size * int64_t{2};
  const int64_t padded = round_up(pairs, kOperandPairs);
  __builtin_memset(to + pairs * 32, 0, static_cast<size_t>(padded - pairs) * 64);
  if (item.block_size % 16 == 0) {
    const Element* from = cache.key(start);
    for (int64_t i = 0; i < pairs; ++i) store_pairs(to + 32 * i, Cache::load16(from + i * stride));
    return;
  }
  // A block is a multiple of 8 positions, so the 16 are copied as two runs of 8.
  const bool has_low = begin < start + 8;
  const bool has_high = end > start + 8;
  const Element* low = cache.key(has_low ? start : start + 8);
  const Element* high = cache.key(has_high ? start + 8 : start);
  for (int64_t i = 0; i < pairs; ++i) {
    Element both[32];
    __builtin_memcpy(both, low + i * stride, 16 * sizeof(Element));
    __builtin_memcpy(both + 16, high + i * stride, 16 * sizeof(Element));
    store_pairs(to + 32 * i, Cache::load16(both));
  }
}

// Returns whether keys are read in place: bf16 with blocks and heads that are whole operands.
template <class Cache>
QUIRE_SIMD bool keys_lie_as_operands(const AttentionItem& item) {
  return sizeof(typename Cache::Element) == sizeof(uint16_t) && item.block_size % 16 == 0 &&
         item.head_dim % 32 == 0;
}

// Returns the keys of 16 positions from `start` on as operands, copied to `scratch` if they cannot
// be read in place. Only [begin, end) exist.
template <class Cache>
QUIRE_SIMD Operands key_operands(const CacheHead<Cache>& cache, int32_t start, int32_t begin,
                                 int32_t end, uint16_t* scratch) {
  if (keys_lie_as_operands<Cache>(cache.item)) {
    const int64_t stride = cache.item.block_size * int64_t{2};
    return {cache.key(start), stride * 2, kOperandPairs * stride};
  }
  copy_keys(cache, start, begin, end, scratch);
  return {scratch, 64, kOperandElements};
}

// Returns the 16 dims from `dim` on of a pair of positions. Positions that do not exist are 0.
template <class Cache>
QUIRE_SIMD Pairs load_value_dims(const typename Cache::Element* from, int64_t dim,
                                 int64_t head_dim) {
  if (dim + 16 <= head_dim) return Cache::load16(from + 2 * dim);
  typename Cache::Element some[32] = {};
  __builtin_memcpy(some, from + 2 * dim, static_cast<size_t>(head_dim - dim) * 2 * sizeof(some[0]));
  return Cache::load16(some);
}

// Copies the values of a tile to operands [2][V16 / 16]. Positions outside the range become 0:
// their weight is 0, but they can hold NaN. It calls between() after each pair of positions.
template <class Cache, class Between>
static void copy_values(const CacheHead<Cache>& cache, const TileRange& range, uint16_t* to,
                        Between&& between) {
  const int64_t head_dim = cache.item.head_dim;
  const int64_t operands = round_up(head_dim, 16) / 16;
  for (int run = 0; run < kAttentionTile; run += 8) {
    const bool exists = run < range.end && run + 8 > range.begin;
    const typename Cache::Element* from = exists ? cache.value(range.start + run) : nullptr;
    for (int i = run; i < run + 8; i += 2) {
      uint16_t* row = to + i / 32 * operands * kOperandElements + i % 32 * 16;
      const bool even = i >= range.begin && i < range.end;
      const bool odd = i + 1 >= range.begin && i + 1 < range.end;
      for (int64_t j = 0; j < operands; ++j) {
        if (even && odd) {
          store_pairs(row, load_value_dims<Cache>(from, 16 * j, head_dim));
        } else if (even || odd) {
          store_pairs(row, keep_pairs(load_value_dims<Cache>(from, 16 * j, head_dim), even, odd));
        } else {
          __builtin_memset(row, 0, 64);
        }
        row += kOperandElements;
      }
      if (!exists) continue;
      from += 2 * head_dim;
      between();
    }
  }
}

// Makes the value operands of 16 dims for a latent cache: `keys` are the operands of the tile's
// chunks of 16 positions, and `to` gets one operand for each half of the tile.
static void turn_dims(const Operands (&keys)[kChunks], const TileRange& range, int64_t dim,
                      uint16_t* const (&to)[kValueOperands]) {
  for (int c = 0; c < kChunks; ++c) {
    const int first = 16 * c;
    uint16_t* rows = to[c / 2] + c % 2 * (kOperandElements / 2);
    if (first < range.end && first + 16 > range.begin) {
      const int64_t stride = keys[c].stride / int64_t{sizeof(uint16_t)};
      turn_keys(static_cast<const uint16_t*>(keys[c].first) + dim / 2 * stride, stride, rows, 32);
    }
    if (first >= range.begin && first + 16 <= range.end) continue;
    for (int i = first; i < first + 16; i += 2, rows += 32) {
      const bool even = i >= range.begin && i < range.end;
      const bool odd = i + 1 >= range.begin && i + 1 < range.end;
      if (even && odd) continue;
      if (even || odd) {
        store_pairs(rows, keep_pairs(load_pairs(rows), even, odd));
      } else {
        __builtin_memset(rows, 0, 64);
      }
    }
  }
}

// Makes the value operands of all dims, [2][V16 / 16].
static void turn_chunks(const Operands (&keys)[kChunks], const TileRange& range, int64_t value_dim,
                        uint16_t* values) {
  const int64_t half = value_dim / 16 * kOperandElements;
  for (int64_t dim = 0; dim < value_dim; dim += 16) {
    uint16_t* to = values + dim / 16 * kOperandElements;
    turn_dims(keys, range, dim, {to, to + half});
  }
}

QUIRE_SIMD float bf16_to_float(uint16_t bits) {
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  float x;
  __builtin_memcpy(&x, &word, sizeof x);
  return x;
}

// Copies the token scales of a tile as floats; positions without a token get 0.
static void copy_token_scales(const AttentionItem& item, const TileRange& range, int64_t head,
                              float* keys, float* values) {
  const auto at = [&](int column) {
    const int32_t position = range.start + column;
    return item.block_table[position / item.block_size] * item.block_stride / 2 +
           head * item.block_size + position % item.block_size;
  };
  for (int c = 0; c < kAttentionTile; c += 16) {
    if (item.block_size % 16 == 0 && c >= range.begin && c + 16 <= range.end) {
      const int64_t from = at(c);
      store(keys + c, load_bf16(item.key_token_scale + from));
      store(values + c, load_bf16(item.value_token_scale + from));
      continue;
    }
    for (int i = c; i < c + 16; ++i) {
      const bool exists = i >= range.begin && i < range.end;
      keys[i] = exists ? bf16_to_float(item.key_token_scale[at(i)]) : 0.0f;
      values[i] = exists ? bf16_to_float(item.value_token_scale[at(i)]) : 0.0f;
    }
  }
}

// Fetches the memory that an item reads ahead of its use and in the same order. For each tile that
// is first the keys, in runs of neighbouring positions of all heads, and then the values head by
// head.
class Prefetcher {
 public:
  Prefetcher(const AttentionItem& item, int64_t element_bytes, int64_t head, int64_t num_heads,
             int32_t begin, int32_t end)
      : item_(item),
        run_(item.block_size % 16 == 0 ? 16 : 8),
        position_bytes_(element_bytes * item.head_dim),
        block_bytes_(element_bytes * item.block_stride),
        first_head_(head),
        end_head_(head + num_heads),
        begin_(begin / run_ * run_),
        end_(end),
        head_(head),
        position_(begin_) {
    set_tile();
  }

  // Fetches the next `lines` cache lines.
  inline __attribute__((always_inline)) void advance(int64_t lines) {
    for (; lines > 0; --lines) {
      if (at_ >= run_end_ && !next_run()) return;
      prefetch_l2(at_);
      at_ += 64;
    }
  }

 private:
  void set_tile() {
    const int32_t tile = position_ / kAttentionTile * kAttentionTile;
    tile_begin_ = begin_ > tile ? begin_ : tile;
    tile_end_ = tile + kAttentionTile < end_ ? tile + kAttentionTile : end_;
  }

  bool next_run() {
    if (position_ >= end_) return false;
    const int64_t block = item_.block_table[position_ / item_.block_size] * block_bytes_;
    const int64_t offset = position_ % item_.block_size;
    const void* cache = values_ ? item_.value : item_.key;
    at_ = static_cast<const char*>(cache) + block +
          (head_ * item_.block_size + offset) * position_bytes_;
    run_end_ = at_ + run_ * position_bytes_;
    const uint16_t* scales = values_ ? item_.value_token_scale : item_.key_token_scale;
    if (scales != nullptr) {
      prefetch_l2(reinterpret_cast<const char*>(scales) + block +
                  (head_ * item_.block_size + offset) * 2);
    }
    values_ ? step_values() : step_keys();
    return true;
  }
  void step_keys() {
    if (++head_ < end_head_) return;
    head_ = first_head_;
    position_ += run_;
    if (position_ < tile_end_) return;
    if (item_.value == nullptr) return set_tile();
    position_ = tile_begin_;
    values_ = true;
  }
  void step_values() {
    position_ += run_;
    if (position_ < tile_end_) return;
    if (++head_ < end_head_) {
      position_ = tile_begin_;
      return;
    }
    head_ = first_head_;
    values_ = false;
    set_tile();
  }

  const AttentionItem& item_;
  const int32_t run_;  // positions that are contiguous in a block
  const int64_t position_bytes_, block_bytes_;
  const int64_t first_head_, end_head_;
  const int32_t begin_, end_;
  const char* at_ = nullptr;
  const char* run_end_ = nullptr;
  // The run after the current one:
  bool values_ = false;
  int64_t head_;
  int32_t position_;
  int32_t tile_begin_ = 0, tile_end_ = 0;
};

}  // namespace
}  // namespace quire
