// The online softmax of up to 16 rows over one tile, which turns scores into weights. The form of
// the weights is a type with
//   WeightSlot               a row has [64] of them for its weights
//   weight(x)                2^x for x <= 0
//   store_weights(slots, index, a, b)
//                            stores 32 from `index` on; returns what they add to the sums by lane
#pragma once

#include "kernels/cpu/attention/attention_rows-inl.h"
#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/element/math-inl.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

// Rows whose scores over a tile are computed. Pointers are to the first row. softmax_rows() reads
// ROWS rows, of which only the first n count; the others can hold anything.
template <class Weights>
struct SoftmaxRows {
  int64_t n;
  float* scores;                          // [ROWS, 64]
  typename Weights::WeightSlot* weights;  // [n, 64]; may be the memory of the scores
  const float* scale;                     // [16] > 0: brings capped scores to units of log2 e
  const float* cap_unit;                  // [n] with a soft cap: brings a score to units of the cap
  const float* alibi;                     // [n] the ALiBi slope, or the factor of biases; or null
  const float* const* bias;               // [n] biases of the row's head, or null
  const int32_t* position;                // [n]
  const int32_t* end;                     // [n] one past what each sees
  float* max;                             // [16] of scaled scores, ROWS of which are updated
  float* rescale;                         // [ROWS] factors of the sums so far
  float* shift;                           // [ROWS] scratch
  float* sum;                             // [n, 16] by lane; updated
  const int32_t* scale_row;               // [n] the row of the token scales to use
};

struct SoftmaxTile {
  TileRange range;
  bool masked;     // some row does not see all of it
  float soft_cap;  // 0: none
  int32_t window;  // 0: none
  bool window_is_chunk;
  int32_t bias_reach;
  const float* key_scales;  // [scale rows, 64], or null
  const float* value_scales;
};

#ifdef __AVX512F__

// Returns 2^x for x <= 0 with a relative error of up to 3e-6, and 0 for minus infinity. It is
// 2^floor(x) times the polynomial of degree 4 whose largest relative error on [0, 1) is the
// smallest.
QUIRE_SIMD F16 exp2_weight(F16 x) {
  const F16 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  F16 p = set1(0.01353416778f);
  p = fma(p, f, set1(0.05201146007f));
  p = fma(p, f, set1(0.2414427549f));
  p = fma(p, f, set1(0.6930038333f));
  p = fma(p, f, set1(1.000002623f));
  return _mm512_scalef_ps(p, x);
}

QUIRE_SIMD F16 max_of_pairs(F16 a, F16 b) {
  return max(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
}
QUIRE_SIMD F16 max_of_fours(F16 a, F16 b) {
  const __m512d x = _mm512_castps_pd(a);
  const __m512d y = _mm512_castps_pd(b);
  return max(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
             _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
}
QUIRE_SIMD F16 max_of_quarters(F16 a, F16 b) {
  return max(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}
// Returns the largest lane of rows[i] in lane i < ROWS. The other lanes repeat these, so that the
// compiler emits nothing for them.
template <int ROWS>
QUIRE_SIMD F16 row_maxima(const F16 (&rows)[ROWS]) {
  F16 fours[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    fours[i] = max_of_fours(max_of_pairs(rows[4 * i % ROWS], rows[(4 * i + 1) % ROWS]),
                            max_of_pairs(rows[(4 * i + 2) % ROWS], rows[(4 * i + 3) % ROWS]));
  }
  return max_of_quarters(max_of_quarters(fours[0], fours[1]), max_of_quarters(fours[2], fours[3]));
}

#else

QUIRE_SIMD F16 exp2_weight(F16 x) { return exp2_flushed(x); }
template <int ROWS>
QUIRE_SIMD F16 row_maxima(const F16 (&rows)[ROWS]) {
  float lanes[16] = {};
  for (int i = 0; i < ROWS; ++i) lanes[i] = reduce_max(rows[i]);
  return load(lanes);
}

#endif

template <int ROWS>
QUIRE_SIMD void store_rows(float* p, F16 x) {
  ROWS == 16 ? store(p, x) : store_n(p, x, ROWS);
}

// Applies token scales, soft cap, ALiBi or biases, and mask to scores in place.
template <class Weights>
static void prepare_scores(const SoftmaxTile& tile, const SoftmaxRows<Weights>& rows) {
  for (int64_t r = 0; r < rows.n; ++r) {
    float* scores = rows.scores + r * kAttentionTile;
    const int32_t position = rows.position[r];
    const int32_t low = cpu::attention_begin(tile.window, tile.window_is_chunk, position);
    const auto begin = static_cast<float>(low - tile.range.start);
    const auto end = static_cast<float>(rows.end[r] - tile.range.start);
    for (int c = 0; c < kChunks; ++c) {
      F16 x = load(scores + 16 * c);
      if (tile.key_scales != nullptr) {
        x = mul(x, load(tile.key_scales + rows.scale_row[r] * kAttentionTile + 16 * c));
      }
      if (tile.soft_cap > 0.0f) {
        x = mul(set1(tile.soft_cap), tanh(mul(x, set1(rows.cap_unit[r]))));
      }
      if (rows.bias != nullptr) {
        const float* bias = rows.bias[r] + first_bias(tile.range.start, position, tile.bias_reach);
        x = fma(load(bias + 16 * c), set1(rows.alibi[r]), x);
      } else if (rows.alibi != nullptr) {
        const F16 distance = iota(static_cast<float>(16 * c + tile.range.start - position));
        x = fma(abs(distance), set1(-rows.alibi[r]), x);
      }
      if (tile.masked) x = mask_columns(x, c, begin, end);
      store(scores + 16 * c, x);
    }
  }
}

// Updates the maxima of rows with the scores of a tile. Returns false if no sum needs to be
// rescaled.
template <int ROWS, class Weights>
QUIRE_SIMD bool update_maxima(const SoftmaxRows<Weights>& rows) {
  F16 largest[ROWS];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
    const float* scores = rows.scores + r * kAttentionTile;
    largest[r] =
        max(max(load(scores), load(scores + 16)), max(load(scores + 32), load(scores + 48)));
  }
  const F16 old_max = load(rows.max);
  const F16 new_max = max(mul(row_maxima(largest), load(rows.scale)), old_max);
  // A row that has seen nothing yet has a maximum of -infinity, and all its weights are 2^-infinity
  // with any shift.
  const F16 shift = select_less(set1(kMinusInfinity), new_max, new_max, zero());
  const F16 rescale = exp2_flushed(sub(old_max, shift));
  store_rows<ROWS>(rows.max, new_max);
  store_rows<ROWS>(rows.shift, shift);
  store_rows<ROWS>(rows.rescale, rescale);
  // A row that is no longer finite must not hide that another row moved, and a row after the first
  // n must not count.
  const F16 moves = select_less(rescale, set1(1.0f), set1(1.0f), zero());
  const F16 row = iota(0.0f);
  return reduce_max(select_less(row, set1(static_cast<float>(rows.n)), moves, zero())) > 0.0f;
}

// Computes the weights of one row and adds them to its sum.
template <class Weights>
QUIRE_SIMD void weigh_row(const SoftmaxTile& tile, const SoftmaxRows<Weights>& rows, int64_t r) {
  const float* scores = rows.scores + r * kAttentionTile;
  typename Weights::WeightSlot* weights = rows.weights + r * kAttentionTile;
  const F16 scale = set1(rows.scale[r]);
  const F16 shift = set1(-rows.shift[r]);
  F16 x[kChunks];
#pragma GCC unroll 4
  for (int c = 0; c < kChunks; ++c) {
    x[c] = Weights::weight(fma(load(scores + 16 * c), scale, shift));
  }
  F16 sum = mul(load(rows.sum + 16 * r), set1(rows.rescale[r]));
  if (tile.value_scales !=
      nullptr) {  // the weights of values are the scaled ones, their sum is not
    const float* value_scales = tile.value_scales + rows.scale_row[r] * kAttentionTile;
    for (int c = 0; c < kChunks; ++c) {
      sum = add(sum, x[c]);
      // The scale of a position that the row does not see can be anything.
      const F16 scaled = mul(x[c], load(value_scales + 16 * c));
      x[c] = select_less(zero(), x[c], scaled, zero());
    }
    for (int c = 0; c < kChunks; c += 2) Weights::store_weights(weights, 16 * c, x[c], x[c + 1]);
  } else {
#pragma GCC unroll 2
    for (int c = 0; c < kChunks; c += 2) {
      sum = add(sum, Weights::store_weights(weights, 16 * c, x[c], x[c + 1]));
    }
  }
  store(rows.sum + 16 * r, sum);
}

// Reads ROWS rows and writes the first n. Returns whether the caller must multiply the rows' other
// sums by `rescale`.
template <int ROWS, class Weights>
static bool softmax_rows(const SoftmaxTile& tile, const SoftmaxRows<Weights>& rows) {
  if (tile.masked || tile.key_scales != nullptr || tile.soft_cap > 0.0f || rows.alibi != nullptr)
    prepare_scores(tile, rows);
  const bool moved = update_maxima<ROWS>(rows);
  for (int64_t r = 0; r < rows.n; ++r) weigh_row(tile, rows, r);
  return moved;
}

}  // namespace
}  // namespace quire
