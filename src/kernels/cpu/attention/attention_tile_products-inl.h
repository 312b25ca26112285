// The code that the walks on the tile unit share: an item's rows and scratch memory, and the
// products of rows with the operands of keys and values.
#pragma once

#include "kernels/cpu/attention/attention_cache-inl.h"
#include "kernels/cpu/attention/attention_operands-inl.h"
#include "kernels/cpu/attention/attention_rows-inl.h"
#include "kernels/cpu/attention/attention_softmax-inl.h"
#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/element/math-inl.h"
#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/simd/tiles-inl.h"

namespace quire {
namespace {

using cpu::kTileRows;
using cpu::shape_tile;
using cpu::TileShapes;

// The tile registers: the sums of two tiles of rows by 16 columns, two steps of those rows, and two
// operands of columns.
enum TileRegister : int { kSum0, kSum1, kRows00, kRows01, kRows10, kRows11, kColumns0, kColumns1 };

// The weights of a row are stored as an operand, [64] bf16.
struct TileWeights {
  using WeightSlot = uint16_t;
  QUIRE_SIMD F16 weight(F16 x) { return exp2_weight(x); }
  QUIRE_SIMD F16 store_weights(uint16_t* slots, int64_t index, F16 a, F16 b) {
#ifdef __AVX512BF16__
    return store_pair_weights(reinterpret_cast<float*>(slots), index, a, b);
#else
    store_bf16(slots + index, a);
    store_bf16(slots + index + 16, b);
    return add(round_to_bf16(a), round_to_bf16(b));
#endif
  }
};

// The rows of a KV head take slots: one for each row, or whole tiles of 16 if there are 16 rows or
// more.
struct TileItem {
  const AttentionItem& item;
  ItemShape shape;
  int64_t d32;
  int64_t head_slots;  // slots of one KV head
  int64_t slots;
};

static TileItem tile_item(const AttentionItem& item) {
  const ItemShape shape = shape_of(item);
  const int64_t head_slots =
      shape.head_rows < kTileRows ? shape.head_rows : round_up(shape.head_rows, kTileRows);
  return {item, shape, round_up(item.head_dim, 32), head_slots, head_slots * item.num_kv_heads};
}

// The arrays of an item in its scratch. An array with one number per slot is readable for 16 from
// the first slot of any group on.
struct TileScratch {
  uint16_t* query;     // [slots, D32] bf16
  float* acc;          // [slots, V16] of the current split
  float* out;          // [slots, V16] of the splits so far
  float* sum;          // [slots, 16]
  float* max;          // [slots] of the current split
  float* rescale;      // [slots]
  float* shift;        // [slots]
  float* scale;        // [slots]
  float* cap_unit;     // [slots]
  float* alibi;        // [slots] the ALiBi slope, or the factor of biases; or null
  const float** bias;  // [slots] biases of the slot's head, or null
  float* out_max;      // [slots] of the splits so far
  float* out_sum;      // [slots]
  int32_t* position;   // [slots]
  int32_t* end;        // [slots] one past what each sees
  int32_t* scale_row;  // [slots] the row of key_scales to use
  float* scores;       // [slots, 64]
  uint16_t* weights;   // [slots, 64]
  uint16_t* keys;      // [4][D32 / 32] operands of a tile, or of each tile of a split
  uint16_t* values;    // [2][V16 / 16] operands of a tile, or of each tile of a split
  float* key_scales;   // few rows: [heads, 64] for a tile; many: [512] for a split
  float* value_scales;
};

static TileScratch carve_tiles(const TileItem& t) {
  // Tile loads are fastest from whole cache lines.
  float* next = t.item.scratch + (-reinterpret_cast<uintptr_t>(t.item.scratch) / 4 & 15);
  const auto take = [&](int64_t n) {
    float* mine = next;
    next += round_up(n, 16);
    return mine;
  };
  const auto take_words = [&](int64_t n) { return reinterpret_cast<uint16_t*>(take(n / 2)); };
  const int64_t slots = round_up(t.slots, 16);
  TileScratch s;
  s.query = take_words(slots * t.d32);
  s.acc = take(slots * t.shape.v16);
  s.out = take(slots * t.shape.v16);
  s.sum = take(slots * 16);
  s.max = take(slots);
  s.rescale = take(slots);
  s.shift = take(slots);
  s.scale = take(slots);
  s.cap_unit = take(slots);
  s.alibi = has_biases(t.item) ? take(slots) : nullptr;
  s.bias = nullptr;
  if (t.item.position_bias != nullptr) s.bias = reinterpret_cast<const float**>(take(2 * slots));
  s.out_max = take(slots);
  s.out_sum = take(slots);
  s.position = reinterpret_cast<int32_t*>(take(slots));
  s.end = reinterpret_cast<int32_t*>(take(slots));
  s.scale_row = reinterpret_cast<int32_t*>(take(slots));
  // There is room for at least two groups of 16: one is filled while the other is read.
  const int64_t scored = slots < 2 * kTileRows ? 2 * kTileRows : slots;
  s.scores = take(scored * kAttentionTile);
  s.weights = take_words(scored * kAttentionTile);
  s.keys = take_words(kAttentionSplit * t.d32);
  s.values = take_words(kAttentionSplit * t.shape.v16);
  const int64_t scales = t.item.num_kv_heads * int64_t{kAttentionTile};
  s.key_scales = take(scales > kAttentionSplit ? scales : kAttentionSplit);
  s.value_scales = take(scales > kAttentionSplit ? scales : kAttentionSplit);
  return s;
}

static TileShapes attention_tile_shapes(int64_t head_slots) {
  const int64_t rows = head_slots < kTileRows ? head_slots : kTileRows;
  TileShapes shapes;
  for (int sums_or_rows = kSum0; sums_or_rows <= kRows11; ++sums_or_rows) {
    shape_tile(shapes, sums_or_rows, rows, 64);
  }
  shape_tile(shapes, kColumns0, kTileRows, 64);
  shape_tile(shapes, kColumns1, kTileRows, 64);
  return shapes;
}

// Calls body(slot, row, query head, token) for every row of the item.
template <class Body>
QUIRE_SIMD void for_each_slot(const TileItem& t, Body&& body) {
  for_each_row(t.item, [&](int64_t row, int64_t head, int64_t token) {
    const int64_t kv_head = head / t.item.group;
    body(row + kv_head * (t.head_slots - t.shape.head_rows), row, head, token);
  });
}

static void gather_slots(const TileItem& t, const TileScratch& s) {
  const AttentionItem& item = t.item;
  const int64_t padded = round_up(t.slots, 16);
  __builtin_memset(s.query, 0, static_cast<size_t>(padded * t.d32) * sizeof(uint16_t));
  __builtin_memset(s.out, 0, static_cast<size_t>(padded * t.shape.v16) * sizeof(float));
  for (int64_t slot = 0; slot < padded; ++slot) {
    const int64_t head = slot < t.slots ? slot / t.head_slots : 0;
    const float scale = head_scale(item, t.shape, head);
    const bool capped = item.soft_cap > 0.0f;
    s.scale[slot] = capped ? kLog2E : scale;
    s.cap_unit[slot] = capped ? scale / item.soft_cap : 1.0f;
    if (s.alibi != nullptr) s.alibi[slot] = 0.0f;
    if (s.bias != nullptr) s.bias[slot] = item.position_bias;
    s.position[slot] = t.shape.last_position;
    s.end[slot] = t.shape.end;
    s.scale_row[slot] = t.head_slots < kTileRows ? static_cast<int32_t>(head) : 0;
    s.out_max[slot] = kMinusInfinity;
    s.out_sum[slot] = 0.0f;
  }
  for_each_slot(t, [&](int64_t slot, int64_t, int64_t head, int64_t token) {
    s.position[slot] = item.first_position + static_cast<int32_t>(token);
    s.end[slot] = cpu::attention_end(item, static_cast<int32_t>(token));
    if (item.alibi_slopes != nullptr) s.alibi[slot] = alibi_of(item, head, s.scale[slot]);
    if (s.bias != nullptr) {
      s.alibi[slot] = bias_unit(s.scale[slot]);
      s.bias[slot] = item.position_bias + head * item.bias_stride;
    }
    const float* from = item.query + token * item.query_stride + head * item.head_dim;
    uint16_t* to = s.query + slot * t.d32;
    for (int64_t d = 0; d < item.head_dim; d += 16) {
      const int64_t left = item.head_dim - d;
      store_bf16(to + d, left >= 16 ? load(from + d) : load_n(from + d, left));
    }
  });
}

// Clears the sums of n slots that have no tile in this split.
static void clear_sums(const TileItem& t, const TileScratch& s, int64_t first, int64_t n) {
  __builtin_memset(s.acc + first * t.shape.v16, 0,
                   static_cast<size_t>(n * t.shape.v16) * sizeof(float));
}

static void begin_split(const TileItem& t, const TileScratch& s) {
  const int64_t padded = round_up(t.slots, 16);
  __builtin_memset(s.sum, 0, static_cast<size_t>(padded * 16) * sizeof(float));
  for (int64_t slot = 0; slot < padded; slot += 16) store(s.max + slot, set1(kMinusInfinity));
}

// Does fold_split() for 16 slots.
static void fold_slots(const TileItem& t, const TileScratch& s, int64_t first) {
  const int64_t v16 = t.shape.v16;
  const F16 max_score = load(s.max + first);
  const F16 old_max = load(s.out_max + first);
  const F16 new_max = max(max_score, old_max);
  // A row that saw nothing in this split stays as it is.
  const F16 nothing = set1(kMinusInfinity);
  const F16 keep = select_less(nothing, max_score, exp2_flushed(sub(old_max, new_max)), set1(1.0f));
  const F16 take = select_less(nothing, max_score, exp2_flushed(sub(max_score, new_max)), zero());
  float keeps[16], takes[16];
  store(keeps, keep);
  store(takes, take);
  store(s.out_max + first, new_max);
  const int64_t n = t.slots - first < 16 ? t.slots - first : 16;
  for (int64_t r = 0; r < n; ++r) {
    const int64_t slot = first + r;
    s.out_sum[slot] = s.out_sum[slot] * keeps[r] + reduce_add(load(s.sum + 16 * slot)) * takes[r];
    const F16 k = set1(keeps[r]);
    const F16 a = set1(takes[r]);
    float* out = s.out + slot * v16;
    const float* acc = s.acc + slot * v16;
    for (int64_t d = 0; d < v16; d += 16) {
      store(out + d, add(mul(load(out + d), k), mul(load(acc + d), a)));
    }
  }
}

static void finish_split(const TileItem& t, const TileScratch& s) {
  if (t.item.partials == nullptr) {
    for (int64_t slot = 0; slot < t.slots; slot += 16) fold_slots(t, s, slot);
    return;
  }
  for_each_slot(t, [&](int64_t slot, int64_t row, int64_t, int64_t) {
    store_partial(t.item, row, s.acc + slot * t.shape.v16, s.max[slot],
                  reduce_add(load(s.sum + 16 * slot)));
  });
}

// Multiplies acc by rescale for the n slots from `first` on.
static void rescale_sums(const TileItem& t, const TileScratch& s, int64_t first, int64_t n) {
  for (int64_t slot = first; slot < first + n; ++slot) {
    const F16 rescale = set1(s.rescale[slot]);
    float* acc = s.acc + slot * t.shape.v16;
    for (int64_t d = 0; d < t.shape.v16; d += 16) store(acc + d, mul(load(acc + d), rescale));
  }
}

// Returns the n <= 16 slots from `first` on. Their scores and weights begin at row `at` of the
// scratch.
static SoftmaxRows<TileWeights> softmax_view(const TileScratch& s, int64_t first, int64_t n,
                                             int64_t at) {
  return {.n = n,
          .scores = s.scores + at * kAttentionTile,
          .weights = s.weights + at * kAttentionTile,
          .scale = s.scale + first,
          .cap_unit = s.cap_unit + first,
          .alibi = s.alibi == nullptr ? nullptr : s.alibi + first,
          .bias = s.bias == nullptr ? nullptr : s.bias + first,
          .position = s.position + first,
          .end = s.end + first,
          .max = s.max + first,
          .rescale = s.rescale + first,
          .shift = s.shift + first,
          .sum = s.sum + 16 * first,
          .scale_row = s.scale_row + first};
}

static SoftmaxTile softmax_tile(const TileItem& t, const TileScratch& s, const TileRange& range) {
  const bool scaled = t.item.key_token_scale != nullptr;
  return {.range = range,
          .masked = is_masked(t.shape, range),
          .soft_cap = t.item.soft_cap,
          .window = t.item.sliding_window,
          .window_is_chunk = t.item.window_is_chunk,
          .bias_reach = t.item.bias_reach,
          .key_scales = scaled ? s.key_scales : nullptr,
          .value_scales = scaled ? s.value_scales : nullptr};
}

// Loads the rows of a product: GROUPS tiles of 16 rows, STEPS (1 or 2) tiles wide.
template <int GROUPS, int STEPS>
QUIRE_SIMD void load_rows(Tiles& tiles, const uint16_t* rows, int64_t row_elements) {
  const int64_t bytes = row_elements * 2;
  tiles.template load<kRows00>(rows, bytes);
  if (STEPS == 2) tiles.template load<kRows01>(rows + 32, bytes);
  if (GROUPS == 1) return;
  const uint16_t* below = rows + kTileRows * row_elements;
  tiles.template load<kRows10>(below, bytes);
  if (STEPS == 2) tiles.template load<kRows11>(below + 32, bytes);
}

// Sets the sums to, or adds to them, the loaded rows times 16 columns, which are STEPS operands
// `step` elements apart.
template <int GROUPS, int STEPS>
QUIRE_SIMD void multiply_rows(Tiles& tiles, const uint16_t* columns, int64_t stride, int64_t step,
                              float* sums, int64_t sum_elements, bool starts) {
  const int64_t sum_bytes = sum_elements * 4;
  float* below = sums + kTileRows * sum_elements;
  if (starts) {
    tiles.template zero<kSum0>();
    if (GROUPS == 2) tiles.template zero<kSum1>();
  } else {
    tiles.template load<kSum0>(sums, sum_bytes);
    if (GROUPS == 2) tiles.template load<kSum1>(below, sum_bytes);
  }
  tiles.template load<kColumns0>(columns, stride);
  if (STEPS == 2) tiles.template load<kColumns1>(columns + step, stride);
  tiles.template dot_bf16<kSum0, kRows00, kColumns0>();
  if (GROUPS == 2) tiles.template dot_bf16<kSum1, kRows10, kColumns0>();
  if (STEPS == 2) tiles.template dot_bf16<kSum0, kRows01, kColumns1>();
  if (GROUPS == 2 && STEPS == 2) tiles.template dot_bf16<kSum1, kRows11, kColumns1>();
  tiles.template store<kSum0>(sums, sum_bytes);
  if (GROUPS == 2) tiles.template store<kSum1>(below, sum_bytes);
}

// Computes scores[rows, 64] of 16 GROUPS rows (or fewer than 16) with num_chunks chunks of 16
// positions, whose operands are contiguous.
template <int GROUPS>
static void score_columns(Tiles& tiles, const TileItem& t, const uint16_t* query,
                          const Operands& keys, int num_chunks, float* scores) {
  const auto* first = static_cast<const uint16_t*>(keys.first);
  const int64_t steps = t.d32 / 32;
  for (int64_t step = 0; step < steps; step += 2) {
    const uint16_t* columns = first + step * keys.step;
    if (step + 1 < steps) {
      load_rows<GROUPS, 2>(tiles, query + 32 * step, t.d32);
      for (int c = 0; c < num_chunks; ++c) {
        multiply_rows<GROUPS, 2>(tiles, columns + c * 16 * t.d32, keys.stride, keys.step,
                                 scores + 16 * c, kAttentionTile, step == 0);
      }
    } else {
      load_rows<GROUPS, 1>(tiles, query + 32 * step, t.d32);
      for (int c = 0; c < num_chunks; ++c) {
        multiply_rows<GROUPS, 1>(tiles, columns + c * 16 * t.d32, keys.stride, keys.step,
                                 scores + 16 * c, kAttentionTile, step == 0);
      }
    }
  }
}

// Sets acc to, or adds to it, weights . values over a tile.
template <int GROUPS>
static void add_weighted(Tiles& tiles, const TileItem& t, const uint16_t* values,
                         const uint16_t* weights, float* acc, bool starts) {
  const int64_t v16 = t.shape.v16;
  load_rows<GROUPS, kValueOperands>(tiles, weights, kAttentionTile);
  for (int64_t d = 0; d < v16; d += 16) {
    multiply_rows<GROUPS, kValueOperands>(tiles, values + d / 16 * kOperandElements, 64,
                                          v16 / 16 * kOperandElements, acc + d, v16, starts);
  }
}

}  // namespace
}  // namespace quire
