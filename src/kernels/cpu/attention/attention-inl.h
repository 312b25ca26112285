// Paged attention over vectors: online softmax (FlashAttention-2, Dao 2023) over tiles of 64
// positions, tiles in splits of 512, both cut at absolute positions.
//
// A row is reduced in this order. In a tile, scores are summed by ascending dim, weights by lane,
// and values by ascending position. Tiles are ascending within a split; then the lanes are summed
// as a tree, and splits are folded in ascending order. Positions that a row does not see get the
// weight 0 exactly, and a tile or split of only such positions changes nothing. So the result of a
// row depends neither on the other rows of an item nor on how its request was chunked.
//
// All KV heads of an item go through a tile before the next tile is read. The heads of a block are
// contiguous, so memory is read in long runs.
#pragma once

#include "kernels/cpu/attention/attention_cache-inl.h"
#include "kernels/cpu/attention/attention_codes-inl.h"
#include "kernels/cpu/attention/attention_rows-inl.h"
#include "kernels/cpu/attention/attention_scratch-inl.h"
#include "kernels/cpu/attention/attention_steps-inl.h"
#include "kernels/cpu/attention/attention_tile-inl.h"
#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

static void clear_split(const ItemShape& shape, const Scratch& s) {
  for (int64_t i = 0; i < shape.rows * shape.v16; i += 16) store(s.acc + i, zero());
  for (int64_t row = 0; row < shape.rows; ++row) {
    s.max[row] = kMinusInfinity;
    store(s.sum + 16 * row, zero());
  }
}

// The queries of tokens are far apart in memory, so that without this each row would wait for
// memory.
static void fetch_queries(const AttentionItem& item) {
  const int64_t floats = int64_t{item.num_kv_heads} * item.group * item.head_dim;
  for (int64_t token = 0; token < item.num_tokens; ++token) {
    const float* from = item.query + token * item.query_stride;
    for (int64_t i = 0; i < floats; i += 16) prefetch(from + i);
  }
}

template <class Cache>
static void gather_rows(const AttentionItem& item, const ItemShape& shape, const Scratch& s) {
  for (int64_t row = 0; row < shape.head_rows; ++row) {
    const auto token = static_cast<int32_t>(row) / item.group;
    s.position[row] = item.first_position + token;
    s.end[row] = cpu::attention_end(item, token);
  }
  fetch_queries(item);
  for_each_row(item, [&](int64_t row, int64_t head, int64_t token) {
    const float* from = item.query + token * item.query_stride + head * item.head_dim;
    float* to = s.query + row * shape.d16;
    for (int64_t d = 0; d < shape.d16; d += 16) {
      const int64_t left = item.head_dim - d;
      Cache::store_operand(to, d, left >= 16 ? load(from + d) : load_n(from + d, left));
    }
    for (int64_t d = 0; d < shape.v16; d += 16) store(s.out + row * shape.v16 + d, zero());
    s.out_max[row] = kMinusInfinity;
    s.out_sum[row] = 0.0f;
    if (!has_biases(item)) return;
    const float scale = item.soft_cap > 0.0f ? kLog2E : head_scale(item, shape, head / item.group);
    s.alibi[row] = item.alibi_slopes == nullptr ? bias_unit(scale) : alibi_of(item, head, scale);
    s.bias[row] = item.position_bias + head * item.bias_stride;
  });
}

static void finish_split(const AttentionItem& item, const ItemShape& shape, const Scratch& s) {
  for (int64_t row = 0; row < shape.rows; ++row) {
    const float* acc = s.acc + row * shape.v16;
    const float sum = reduce_add(load(s.sum + 16 * row));
    if (item.partials == nullptr) {
      fold_split({s.out + row * shape.v16, s.out_max + row, s.out_sum + row}, acc, s.max[row], sum,
                 shape.v16);
      continue;
    }
    store_partial(item, row, acc, s.max[row], sum);
  }
}

template <AttentionTraits Traits, class Cache>
static void attend(const AttentionItem& item) {
  const ItemShape shape = shape_of(item);
  const Scratch s = carve(item.scratch, shape.rows, shape.d16);
  // bf16 is read in place. Other types are converted on each read for few rows, and once per tile
  // for more. Latents are copied, so that values can be made from keys.
  const bool direct = item.value != nullptr && item.block_size % 16 == 0 &&
                      item.head_dim % 16 == 0 &&
                      (sizeof(typename Cache::Element) == sizeof(typename Cache::Copied::Element) ||
                       shape.head_rows <= Traits::kDirectRows);
  const RowShape rows{
      .head_dim = item.head_dim,
      .d16 = shape.d16,
      .v16 = shape.v16,
      .soft_cap = item.soft_cap,
      .window = item.sliding_window,
      .window_is_chunk = item.window_is_chunk,
      .bias_reach = item.bias_reach,
  };
  gather_rows<Cache>(item, shape, s);
  for (int32_t split = item.first_split; split < item.end_split; ++split) {
    const int32_t begin = split * kAttentionSplit;
    const int32_t end = split_end(shape, split);
    clear_split(shape, s);
    if (direct) {
      attend_direct<Traits, Cache>(item, shape, rows, s, begin, end);
    } else {
      attend_copied<Traits, Cache>(item, shape, rows, s, begin, end);
    }
    finish_split(item, shape, s);
  }
  if (item.partials != nullptr) return;
  for_each_row(item, [&](int64_t row, int64_t head, int64_t token) {
    write_row(item, {s.out + row * shape.v16, s.out_max + row, s.out_sum + row}, head, token);
  });
}

}  // namespace
}  // namespace quire
