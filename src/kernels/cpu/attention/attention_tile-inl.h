// Attention of a few rows over one tile: scores = q . K, the online softmax, acc += weights . V,
// with ROWS x NV accumulators in registers.
#pragma once

#include "kernels/cpu/attention/attention_cache-inl.h"
#include "kernels/cpu/attention/attention_rows-inl.h"
#include "kernels/cpu/attention/attention_softmax-inl.h"
#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

// The constants that an instruction set gives the kernels over vectors:
//   kRowBlock      the most rows whose accumulators are in registers
//   kAccumulators  the most vectors of 16 that are summed at once
//   kDirectRows    the most rows of a KV head for which a cache that needs conversion is read in
//                  place; for more rows it is copied once per tile
template <class Traits>
concept AttentionTraits = requires {
  int64_t{Traits::kRowBlock};
  int64_t{Traits::kAccumulators};
  int64_t{Traits::kDirectRows};
};

// The keys and values of a tile for the item's first KV head. A chunk is 16 positions, and consists
// of steps of 16 elements (or pairs).
template <class Element>
struct TileView {
  const Element* key[kChunks];    // the next dims are key_stride further on
  const Element* value[kChunks];  // the next positions are value_stride further on
  int64_t key_stride;
  int64_t value_stride;
  // The same memory as runs of contiguous elements, 16 positions each, in the order for fetching.
  const Element* key_run[kChunks];
  const Element* value_run[kChunks];
  // The bf16 scales of the positions, or null; heads are block_size apart.
  const uint16_t* key_scale[kChunks];
  const uint16_t* value_scale[kChunks];
};

template <class Element>
struct Tile {
  TileRange range;
  bool masked;  // some row does not see all of it
  TileView<Element> view;
};

// Consecutive rows of one KV head, and the tile that they attend to.
template <class Element>
struct Step {
  const Tile<Element>* tile;
  int64_t head_offset;   // elements from the first KV head's keys (and values) to this one's
  int64_t scale_offset;  // the same for token scales
  float scale;           // of scores; in units of log2 e unless there is a soft cap
  int64_t num_rows;
  const float* query;        // [rows, D16] operands
  float* acc;                // [rows, V16]
  float* max;                // [rows], in units of log2 e; readable for 16
  float* sum;                // [rows, 16]: by lane
  const float* alibi;        // [rows] or null
  const float* const* bias;  // [rows] or null
  const int32_t* position;   // [rows]
  const int32_t* end;        // [rows] one past what each sees
  float* weights;            // [rows, 64] scores, then weights as operands
  float* rescale;            // [rows]
  // Runs of 16 positions of one KV head, which are fetched during this step.
  const Element* keys_ahead[kChunks];
  const Element* values_ahead[kChunks];
};

// The properties of rows that are the same for all tiles.
struct RowShape {
  int64_t head_dim;
  int64_t d16;     // dims of a key, padded to 16
  int64_t v16;     // dims of a value, padded to 16
  float soft_cap;  // 0: none
  int32_t window;  // 0: none
  bool window_is_chunk;
  int32_t bias_reach;
};

// Fetches the bytes of N vectors of a cache from `p` on.
template <class Cache, int N>
QUIRE_SIMD void prefetch_vectors(const typename Cache::Element* p) {
  constexpr int kBytes = N * 16 * Cache::kWidth * static_cast<int>(sizeof(*p));
  const char* bytes = reinterpret_cast<const char*>(p);
#pragma GCC unroll 4
  for (int offset = 0; offset < kBytes; offset += 64) prefetch_l2(bytes + offset);
}

// With so few rows that a step takes four vectors, memory is the limit. This fetches the memory 8
// steps further on, at least 2 KB, into the first-level cache too, where it arrives even if the
// second-level cache was too busy to take it: further keys of the run, and the values of the same
// positions of the next head. With more rows a run is read in several passes, and with smaller
// elements this gained nothing.
template <class Cache, int NV>
QUIRE_SIMD void fetch_near(const typename Cache::Element* const (&at)[NV], int64_t stride) {
  if constexpr (NV == 4 && sizeof(typename Cache::Element) == 2) {
    constexpr int64_t kSteps = 8;
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) prefetch(at[v] + kSteps * stride);
  }
}

// Computes weights[r][16 * v + lane] = q[r] . k for NV neighbouring chunks, and fetches NV runs
// meanwhile.
template <class Cache, int ROWS, int NV>
static void score_chunks(const RowShape& shape, const Step<typename Cache::Element>& step,
                         int chunk) {
  using Element = typename Cache::Element;
  F16 acc[ROWS][NV];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) acc[r][v] = zero();
  }
  const TileView<Element>& view = step.tile->view;
  const Element* k[NV];
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) k[v] = view.key[chunk + v] + step.head_offset;
  const int64_t stride = view.key_stride;
  const int64_t d16 = shape.d16;
  const int64_t steps = shape.head_dim / Cache::kWidth;
  const float* q = step.query;
  int64_t i = 0;
  for (int run = 0; run < NV; ++run) {  // a run is fetched in steps / NV steps
    const Element* ahead = step.keys_ahead[chunk + run];
    for (const int64_t end = steps * (run + 1) / NV; i < end; ++i) {
      prefetch_vectors<Cache, NV>(ahead);
      ahead += NV * 16 * Cache::kWidth;
      decltype(Cache::load16(k[0])) keys[NV];
      const Element* at[NV];
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) at[v] = k[v] + i * stride;
      fetch_near<Cache>(at, stride);
      load_vectors<Cache>(at, keys);
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) {
        const typename Cache::X x = Cache::broadcast(q + r * d16 + i * Cache::kSlots);
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) acc[r][v] = Cache::step(acc[r][v], x, keys[v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      store(step.weights + r * kAttentionTile + 16 * (chunk + v), acc[r][v]);
    }
  }
}

// Calls body(j, filter) for the positions of a chunk that are in the tile's range, with kWidth
// positions from kWidth * j on in each call. filter() replaces the values of positions outside the
// range by 0.
template <int kWidth, class Body>
QUIRE_SIMD void for_each_step(const TileRange& range, int chunk, Body&& body) {
  const int begin = range.begin > 16 * chunk ? range.begin - 16 * chunk : 0;
  const int end = range.end < 16 * chunk + 16 ? range.end - 16 * chunk : 16;
  int j = begin / kWidth;
  if (begin % kWidth != 0) {
    const bool odd = begin + 1 <= end;
    body(
        j++, [&](auto x) __attribute__((always_inline)) { return keep_in_pair(x, false, odd); });
  }
  for (; j < end / kWidth; ++j) {
    body(
        j, [](auto x) __attribute__((always_inline)) { return x; });
  }
  if (end % kWidth != 0 && j == end / kWidth) {
    body(
        j, [](auto x) __attribute__((always_inline)) { return keep_in_pair(x, true, false); });
  }
}

// Computes acc[r] = acc[r] * rescale[r] + the sum over the tile's positions of weight * value, for
// the NV * 16 dims from `dim` on, and fetches a share of each run meanwhile.
template <class Cache, int ROWS, int NV>
static void add_values(const RowShape& shape, const Step<typename Cache::Element>& step,
                       int64_t dim) {
  using Element = typename Cache::Element;
  constexpr int kWidth = Cache::kWidth;
  F16 acc[ROWS][NV];
  const int64_t v16 = shape.v16;
  float* out = step.acc + dim;
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      acc[r][v] = mul(load(out + r * v16 + 16 * v), set1(step.rescale[r]));
    }
  }
  const TileRange range = step.tile->range;
  const TileView<Element>& view = step.tile->view;
  const int64_t stride = view.value_stride;
  const float* weights = step.weights;
  const int end_chunk = (range.end + 15) / 16;
  for (int c = range.begin / 16; c < end_chunk; ++c) {
    const Element* value = view.value[c] + step.head_offset + dim * kWidth;
    const Element* ahead = step.values_ahead[c] + dim * 16;
    const auto step_at = [&](int j, auto&& filter) __attribute__((always_inline)) {
      prefetch_vectors<Cache, NV>(ahead + j * NV * 16 * kWidth);
      decltype(Cache::load16(value)) values[NV];
      const Element* at[NV];
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) at[v] = value + j * stride + 16 * kWidth * v;
      fetch_near<Cache>(at, stride);
      load_vectors<Cache>(at, values);
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) values[v] = filter(values[v]);
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) {
        const typename Cache::X w =
            Cache::broadcast(weights + r * kAttentionTile + (16 / kWidth * c + j) * Cache::kSlots);
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) acc[r][v] = Cache::step(acc[r][v], w, values[v]);
      }
    };
    for_each_step<kWidth>(range, c, step_at);
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) store(out + r * v16 + 16 * v, acc[r][v]);
  }
}

// Loads the scales of a tile's positions. Positions that no row sees get 0, because their scales
// can be anything.
QUIRE_SIMD void load_token_scales(const TileRange& range, const uint16_t* const (&from)[kChunks],
                                  int64_t offset, float* to) {
  const F16 begin = set1(static_cast<float>(range.begin));
  const F16 end = set1(static_cast<float>(range.end));
  for (int c = 0; c < kChunks; ++c) {
    const F16 column = iota(static_cast<float>(16 * c));
    const F16 scale = select_less(column, end, load_bf16(from[c] + offset), zero());
    store(to + 16 * c, select_less(column, begin, zero(), scale));
  }
}

// Turns the scores of ROWS rows into weights 2^(score - max) and updates the rows' running maxima
// and sums.
template <class Cache, int ROWS>
static void weigh_rows(const RowShape& shape, const Step<typename Cache::Element>& step) {
  const bool capped = shape.soft_cap > 0.0f;
  float scale[16], shift[16], cap_unit[ROWS];
  store(scale, set1(capped ? kLog2E : step.scale));
  if (capped) {
    for (float& unit : cap_unit) unit = step.scale / shape.soft_cap;
  }
  const Tile<typename Cache::Element>& tile = *step.tile;
  const bool scaled = tile.view.key_scale[0] != nullptr;
  constexpr int32_t kOneHead[ROWS] = {};
  float key_scales[kAttentionTile], value_scales[kAttentionTile];
  if (scaled) {
    load_token_scales(tile.range, tile.view.key_scale, step.scale_offset, key_scales);
    load_token_scales(tile.range, tile.view.value_scale, step.scale_offset, value_scales);
  }
  softmax_rows<ROWS>(SoftmaxTile{.range = tile.range,
                                 .masked = tile.masked,
                                 .soft_cap = shape.soft_cap,
                                 .window = shape.window,
                                 .window_is_chunk = shape.window_is_chunk,
                                 .bias_reach = shape.bias_reach,
                                 .key_scales = scaled ? key_scales : nullptr,
                                 .value_scales = scaled ? value_scales : nullptr},
                     SoftmaxRows<Cache>{.n = ROWS,
                                        .scores = step.weights,
                                        .weights = step.weights,
                                        .scale = scale,
                                        .cap_unit = cap_unit,
                                        .alibi = step.alibi,
                                        .bias = step.bias,
                                        .position = step.position,
                                        .end = step.end,
                                        .max = step.max,
                                        .rescale = step.rescale,
                                        .shift = shift,
                                        .sum = step.sum,
                                        .scale_row = kOneHead});
}

// Computes the two products of ROWS rows over a whole tile.
template <AttentionTraits Traits, class Cache, int ROWS>
struct RowProducts {
  using Element = typename Cache::Element;
  static_assert(ROWS <= cpu::kAttentionMaxRowBlock);
  static constexpr int kFit = Traits::kAccumulators / ROWS;
  static constexpr int kVectors = kFit >= 4 ? 4 : kFit >= 2 ? 2 : 1;

  static void score(const RowShape& shape, const Step<Element>& step) {
    const int end = (step.tile->range.end + 15) / 16;
    int c = step.tile->range.begin / 16;
    for (; c + kVectors <= end; c += kVectors) {
      score_chunks<Cache, ROWS, kVectors>(shape, step, c);
    }
    for (; c < end; ++c) score_chunks<Cache, ROWS, 1>(shape, step, c);
  }

  static void add(const RowShape& shape, const Step<Element>& step) {
    int64_t d = 0;
    for (; d + 16 * kVectors <= shape.v16; d += 16 * kVectors) {
      add_values<Cache, ROWS, kVectors>(shape, step, d);
    }
    for (; d < shape.v16; d += 16) add_values<Cache, ROWS, 1>(shape, step, d);
  }
};

template <class Cache>
struct RowKernels {
  using Element = typename Cache::Element;
  using Product = void (*)(const RowShape&, const Step<Element>&);
  Product score;
  Product weigh;
  Product add;
};

template <AttentionTraits Traits, class Cache, int ROWS = Traits::kRowBlock>
QUIRE_SIMD RowKernels<Cache> pick_rows(int64_t rows) {
  if constexpr (ROWS > 1) {
    if (rows != ROWS) return pick_rows<Traits, Cache, ROWS - 1>(rows);
  }
  return {&RowProducts<Traits, Cache, ROWS>::score, &weigh_rows<Cache, ROWS>,
          &RowProducts<Traits, Cache, ROWS>::add};
}

}  // namespace
}  // namespace quire
