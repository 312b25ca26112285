// The code that all attention kernels share: which part of the context an item's rows see, and how
// the splits of a row are folded into its result.
#pragma once

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/element/math-inl.h"
#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

using cpu::AttentionCombine;
using cpu::AttentionItem;
using cpu::kAttentionSplit;
using cpu::kAttentionTile;
using cpu::round_up;

constexpr float kMinusInfinity = -__builtin_inff();
constexpr float kLog2E = 1.44269504f;
constexpr int kChunks = kAttentionTile / 16;

struct TileRange {
  int32_t start;  // absolute position of column 0
  int begin;      // columns [begin, end) exist for some row
  int end;
};

// The properties of an item that are the same for all its tiles.
struct ItemShape {
  int64_t head_rows;      // rows of one KV head
  int64_t rows;           // rows of all KV heads: (KV head, token, query head of the group)
  int64_t d16;            // dims of a key, padded to 16
  int64_t v16;            // dims of a value, padded to 16
  float scale;            // of scores; in units of log2 e unless there is a soft cap
  int32_t last_position;  // of the last token
  int32_t first_end;      // one past the last position that all rows see
  int32_t end;            // one past the last position that some row sees
  int32_t window_begin;   // first position that the first row sees
  int32_t window_end;     // first position that all rows see
};

static ItemShape shape_of(const AttentionItem& item) {
  ItemShape shape;
  shape.head_rows = int64_t{item.num_tokens} * item.group;
  shape.rows = shape.head_rows * item.num_kv_heads;
  shape.d16 = round_up(item.head_dim, 16);
  shape.v16 = round_up(item.value_dim, 16);
  shape.scale = item.soft_cap > 0.0f ? item.scale : item.scale * kLog2E;
  shape.last_position = item.first_position + item.num_tokens - 1;
  shape.first_end = cpu::attention_end(item, 0);
  shape.end = cpu::attention_end(item, item.num_tokens - 1);
  const auto seen_from = [&](int32_t position) {
    return cpu::attention_begin(item.sliding_window, item.window_is_chunk, position);
  };
  shape.window_begin = seen_from(item.first_position);
  shape.window_end = seen_from(shape.last_position);
  return shape;
}

// Returns the scale of a KV head's scores: ItemShape::scale, times the head's own scale if the
// cache has one.
QUIRE_SIMD float head_scale(const AttentionItem& item, const ItemShape& shape, int64_t kv_head) {
  return item.key_scale == nullptr ? shape.scale : shape.scale * item.key_scale[kv_head];
}

// Returns the part of the tile at `start` that some row sees, of the positions before `end`.
QUIRE_SIMD TileRange range_at(const ItemShape& shape, int32_t start, int32_t end) {
  return {start, shape.window_begin > start ? shape.window_begin - start : 0,
          end - start < kAttentionTile ? end - start : kAttentionTile};
}

// Returns one past the last position of a split that some row sees.
QUIRE_SIMD int32_t split_end(const ItemShape& shape, int32_t split) {
  const int32_t end = (split + 1) * kAttentionSplit;
  return shape.end < end ? shape.end : end;
}

QUIRE_SIMD bool is_masked(const ItemShape& shape, const TileRange& range) {
  return range.start + kAttentionTile > shape.first_end || range.start < shape.window_end;
}

QUIRE_SIMD F16 mask_columns(F16 x, int chunk, float begin, float end) {
  const F16 column = iota(static_cast<float>(16 * chunk));
  x = select_less(column, set1(begin), set1(kMinusInfinity), x);
  return select_less(column, set1(end), x, set1(kMinusInfinity));
}

// The running sums of a row: the maximum score (in units of log2 e), the sum of weights and, in
// `out`, the sum of weighted values.
struct RowState {
  float* out;
  float* max;
  float* sum;
};

// Adds one split's acc, max and sum to `row`.
QUIRE_SIMD void fold_split(const RowState& row, const float* acc, float max_score, float sum,
                           int64_t n) {
  if (max_score == kMinusInfinity) return;  // the row saw nothing in this split
  const float new_max = max_score > *row.max ? max_score : *row.max;
  const F16 keep = exp2_flushed(set1(*row.max - new_max));
  const F16 take = exp2_flushed(set1(max_score - new_max));
  for (int64_t d = 0; d < n; d += 16) {
    float* out = row.out + d;
    if (n - d >= 16) {
      store(out, add(mul(load(out), keep), mul(load(acc + d), take)));
    } else {
      store_n(out, add(mul(load_n(out, n - d), keep), mul(load_n(acc + d, n - d), take)), n - d);
    }
  }
  float lanes[16];
  store(lanes, add(mul(set1(*row.sum), keep), mul(set1(sum), take)));
  *row.sum = lanes[0];
  *row.max = new_max;
}

// Writes out / (sum of weights, with the sink's) * value_scale to `to`.
QUIRE_SIMD void finish_row(float* to, const RowState& row, const float* sink, float value_scale,
                           int64_t n) {
  float factor = value_scale;
  float total = *row.sum;
  if (sink != nullptr) {
    const float sink_score = *sink * kLog2E;
    const float new_max = sink_score > *row.max ? sink_score : *row.max;
    float lanes[16] = {*row.max - new_max, sink_score - new_max};
    store(lanes, exp2_flushed(load(lanes)));
    factor = value_scale * lanes[0];
    total = total * lanes[0] + lanes[1];
  }
  const F16 scale = set1(factor / total);
  for (int64_t d = 0; d < n; d += 16) {
    if (n - d >= 16) {
      store(to + d, mul(load(row.out + d), scale));
    } else {
      store_n(to + d, mul(load_n(row.out + d, n - d), scale), n - d);
    }
  }
}

QUIRE_SIMD bool has_biases(const AttentionItem& item) {
  return item.alibi_slopes != nullptr || item.position_bias != nullptr;
}

// Returns the ALiBi slope of a query head (kernels/api/attention.h) for scores that are later
// multiplied by `scale`, after the soft cap, to be in units of log2 e.
QUIRE_SIMD float alibi_of(const AttentionItem& item, int64_t head, float scale) {
  return item.alibi_slopes[head] * kLog2E / scale;
}

// Returns the same for a number of PagedAttentionParams::position_bias.
QUIRE_SIMD float bias_unit(float scale) { return kLog2E / scale; }

// Returns where the biases of a tile's positions begin in the row of biases of a head.
QUIRE_SIMD int32_t first_bias(int32_t start, int32_t position, int32_t reach) {
  const int32_t distance = start - position, least = -reach - kAttentionTile;
  return (distance < least ? least : distance > reach ? reach : distance) - least;
}

// Calls body(row, query head, token) for every row of the item.
template <class Body>
QUIRE_SIMD void for_each_row(const AttentionItem& item, Body&& body) {
  int64_t row = 0;
  for (int64_t head = 0; head < item.num_kv_heads; ++head) {
    for (int64_t token = 0; token < item.num_tokens; ++token) {
      for (int64_t g = 0; g < item.group; ++g) body(row++, head * item.group + g, token);
    }
  }
}

QUIRE_SIMD void write_row(const AttentionItem& item, const RowState& row, int64_t head,
                          int64_t token) {
  finish_row(item.out + token * item.out_stride + head * item.value_dim, row,
             item.sinks == nullptr ? nullptr : item.sinks + head,
             item.value_scale == nullptr ? 1.0f : item.value_scale[head / item.group],
             item.value_dim);
}

// Stores the sums of a row over one split, for combine().
QUIRE_SIMD void store_partial(const AttentionItem& item, int64_t row, const float* acc,
                              float max_score, float sum) {
  float* to = item.partials + row * (item.value_dim + int64_t{2});
  __builtin_memcpy(to, acc, static_cast<size_t>(item.value_dim) * sizeof(float));
  to[item.value_dim] = max_score;
  to[item.value_dim + 1] = sum;
}

static void combine(const AttentionCombine& args) {
  const AttentionItem& item = *args.item;
  const int64_t v16 = round_up(item.value_dim, 16);
  const int64_t row_floats = item.value_dim + int64_t{2};
  for_each_row(item, [&](int64_t row, int64_t head, int64_t token) {
    float max_score = kMinusInfinity;
    float sum = 0.0f;
    const RowState state{item.scratch, &max_score, &sum};
    for (int64_t d = 0; d < v16; d += 16) store(state.out + d, zero());
    for (int32_t split = item.first_split; split < item.end_split; ++split) {
      const float* acc =
          args.partials + (split - item.first_split) * args.partial_stride + row * row_floats;
      fold_split(state, acc, acc[item.value_dim], acc[item.value_dim + 1], item.value_dim);
    }
    write_row(item, state, head, token);
  });
}

}  // namespace
}  // namespace quire
