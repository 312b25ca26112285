// The passes of row_kernels.h over the compiler's vector types. The flags of each source file
// decide how wide the registers are.
#pragma once

#include "kernels/cpu/sampling/row_kernels.h"
#include "kernels/cpu/sampling/row_vectors.h"

namespace quire {
namespace {

// The functions that the passes need from an instruction set beyond arithmetic:
//   mul_wide(a, m)              returns the products of the lanes of a with m
//   true_lanes(mask)            returns bits, of which bit j says whether lane j is true
//   put_lanes(x, lanes, out)    writes the lanes whose bits are set to out, in order, and returns
//                               how many they are; it can overwrite up to 16 floats
template <class Lanes>
concept RowLanes = requires(U16 words, I16 mask, F16 x, float* out) {
  Wide{Lanes::mul_wide(words, 1u)};
  uint32_t{Lanes::true_lanes(mask)};
  int64_t{Lanes::put_lanes(x, 1u, out)};
};

QUIRE_ROW F16 splat(float x) { return F16{} + x; }
QUIRE_ROW U16 splat(uint32_t x) { return U16{} + x; }

QUIRE_ROW F16 load(const float* p) {
  F16 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// Returns row[i, i + 16), with -infinity from n on.
QUIRE_ROW F16 load_some(const float* row, int64_t i, int64_t n) {
  if (n - i >= 16) return load(row + i);
  float some[16];
  for (int64_t j = 0; j < 16; ++j) some[j] = i + j < n ? row[i + j] : -__builtin_inff();
  return load(some);
}

QUIRE_ROW F16 max_of(F16 a, F16 b) { return a > b ? a : b; }

// Compares lanes j and j + 8, then j and j + 4, …, in the same order on every instruction set.
QUIRE_ROW float max_lane(F16 v) {
  const F8 a = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
  const F8 b = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  const F8 c = a > b ? a : b;
  const F4 d = __builtin_shufflevector(c, c, 0, 1, 2, 3);
  const F4 e = __builtin_shufflevector(c, c, 4, 5, 6, 7);
  const F4 f = d > e ? d : e;
  const float x = f[0] > f[2] ? f[0] : f[2];
  const float y = f[1] > f[3] ? f[1] : f[3];
  return x > y ? x : y;
}

QUIRE_ROW float sum_lanes(F16 v) {
  const F8 c = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
               __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  const F4 f =
      __builtin_shufflevector(c, c, 0, 1, 2, 3) + __builtin_shufflevector(c, c, 4, 5, 6, 7);
  return (f[0] + f[2]) + (f[1] + f[3]);
}

// Computes exp_nonpositive() of vector_math.h with the same operations, for lanes from -87 to 0.
// The results of other lanes have no meaning, and callers drop them.
QUIRE_ROW F16 exp_normal(F16 x) {
  const F16 round = splat(12582912.0f);
  const F16 rounded = x * splat(1.44269504f) + round;
  const F16 n = rounded - round;
  const F16 r = (x - n * splat(0.693359375f)) - n * splat(-2.12194440e-4f);
  F16 p = splat(1.0f / 5040);
  p = p * r + splat(1.0f / 720);
  p = p * r + splat(1.0f / 120);
  p = p * r + splat(1.0f / 24);
  p = p * r + splat(1.0f / 6);
  p = p * r + splat(0.5f);
  p = p * r + splat(1.0f);
  p = p * r + splat(1.0f);
  U16 bits;  // the last 9 bits of `rounded` are those of n
  __builtin_memcpy(&bits, &rounded, sizeof bits);
  bits = (bits + 127u) << 23;
  F16 power;
  __builtin_memcpy(&power, &bits, sizeof power);
  return p * power;
}

constexpr float kLeastExponent = -87.0f;

QUIRE_ROW F16 exp_nonpositive(F16 x) {
  const F16 power = exp_normal(x);
  return x < splat(kLeastExponent) ? F16{} : power;
}

template <RowLanes Lanes>
static bool scan(const float* row, int64_t n, float* chunk_max) {
  I16 bad{};
  for (int64_t begin = 0; begin < n; begin += kRowChunk) {
    F16 best = splat(-__builtin_inff());
    const int64_t end = begin + kRowChunk < n ? begin + kRowChunk : n;
    for (int64_t i = begin; i < end; i += 16) {
      const F16 x = load_some(row, i, end);
      best = max_of(x, best);
      const F16 checked = end - i >= 16 ? x : (x == splat(-__builtin_inff()) ? F16{} : x);
      I16 bits;
      __builtin_memcpy(&bits, &checked, sizeof bits);
      bad |= (bits & 0x7f800000) == 0x7f800000;
    }
    chunk_max[begin / kRowChunk] = max_lane(best);
  }
  for (int64_t i = n / 16 * 16; i < n; ++i) {  // above, -infinity here is taken for padding
    if (row[i] == -__builtin_inff()) return false;
  }
  return Lanes::true_lanes(bad) == 0;
}

QUIRE_ROW F16 scaled(F16 x, LogitScale scale) {
  return (x - splat(scale.max)) * splat(scale.inverse_temperature);
}

// Returns `low`, or the bound below which exp_nonpositive() returns 0 if that is greater.
QUIRE_ROW float weighty(float low) { return low < kLeastExponent ? kLeastExponent : low; }

QUIRE_ROW void exp_pass(const float* row, int64_t n, const float* chunk_max, LogitScale scale,
                        float low, float* weights, float* chunk_sum) {
  const float least = weighty(low);
  const F16 bound = splat(least);
  for (int64_t begin = 0; begin < n; begin += kRowChunk) {
    if (!(scale.of(chunk_max[begin / kRowChunk]) >= least)) {
      chunk_sum[begin / kRowChunk] = 0.0f;
      continue;
    }
    const int64_t end = begin + kRowChunk < n ? begin + kRowChunk : n;
    F16 sums{};
    for (int64_t i = begin; i < end; i += 16) {
      const F16 x = scaled(load_some(row, i, end), scale);
      const F16 power = exp_normal(x);
      const F16 weight = x >= bound ? power : F16{};
      sums += weight;
      if (weights != nullptr) __builtin_memcpy(weights + i, &weight, sizeof weight);
    }
    chunk_sum[begin / kRowChunk] = sum_lanes(sums);
  }
}

static void exp_sums(const float* row, int64_t n, const float* chunk_max, LogitScale scale,
                     float low, float* chunk_sum) {
  exp_pass(row, n, chunk_max, scale, low, nullptr, chunk_sum);
}

static void exp_weights(const float* row, int64_t n, const float* chunk_max, LogitScale scale,
                        float low, float* weights, float* chunk_sum) {
  exp_pass(row, n, chunk_max, scale, low, weights, chunk_sum);
}

constexpr int64_t kBlock = 4096;  // values of a block are added in float, blocks in double

static void mass_above(const float* row, int64_t n, LogitScale scale, const float* low,
                       double* mass) {
  constexpr int kBounds = 8;
  float bounds[kBounds];
  for (int k = 0; k < kBounds; ++k) bounds[k] = weighty(low[k]);
  for (int k = 0; k < kBounds; ++k) mass[k] = 0.0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = begin + kBlock < n ? begin + kBlock : n;
    F16 sums[kBounds] = {};
    for (int64_t i = begin; i < end; i += 16) {
      const F16 x = scaled(load_some(row, i, end), scale);
      const F16 weight = exp_normal(x);
      for (int k = 0; k < kBounds; ++k) sums[k] += x >= splat(bounds[k]) ? weight : F16{};
    }
    for (int k = 0; k < kBounds; ++k) mass[k] += static_cast<double>(sum_lanes(sums[k]));
  }
}

template <RowLanes Lanes>
static int64_t collect(const float* row, int64_t n, const float* chunk_max, LogitScale scale,
                       ScaledRange range, float* out) {
  const F16 low = splat(range.low);
  const F16 below = splat(range.below);
  int64_t count = 0;
  for (int64_t begin = 0; begin < n; begin += kRowChunk) {
    if (!(scale.of(chunk_max[begin / kRowChunk]) >= range.low)) continue;
    const int64_t end = begin + kRowChunk < n ? begin + kRowChunk : n;
    for (int64_t i = begin; i < end; i += 16) {
      const F16 x = scaled(load_some(row, i, end), scale);
      count += Lanes::put_lanes(x, Lanes::true_lanes((x >= low) & (x < below)), out + count);
    }
  }
  return count;
}

template <RowLanes Lanes>
static BandMass split_band(const float* row, const float* weights, int64_t n,
                           const float* chunk_max, LogitScale scale, ScaledRange range,
                           float* out) {
  const F16 low = splat(range.low);
  const F16 below = splat(range.below);
  BandMass mass = {0, 0.0, 0.0};
  for (int64_t block = 0; block < n; block += kBlock) {
    const int64_t block_end = block + kBlock < n ? block + kBlock : n;
    F16 above{}, inside{};
    for (int64_t begin = block; begin < block_end; begin += kRowChunk) {
      if (!(scale.of(chunk_max[begin / kRowChunk]) >= range.low)) continue;
      const int64_t end = begin + kRowChunk < n ? begin + kRowChunk : n;
      for (int64_t i = begin; i < end; i += 16) {
        const F16 x = scaled(load_some(row, i, end), scale);
        const F16 weight = load(weights + i);
        const I16 in = (x >= low) & (x < below);
        above += x >= below ? weight : F16{};
        inside += in ? weight : F16{};
        mass.count += Lanes::put_lanes(x, Lanes::true_lanes(in), out + mass.count);
      }
    }
    mass.above += static_cast<double>(sum_lanes(above));
    mass.inside += static_cast<double>(sum_lanes(inside));
  }
  return mass;
}

// Returns whether a random word of the chunk reaches `least`. Greater words give greater noise.
template <RowLanes Lanes>
QUIRE_ROW bool noise_reaches(const NoiseQuery& query, int64_t chunk, uint32_t least) {
  const U16 lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  U16 c0 = splat(query.position);
  U16 c1{};
  U16 c2 = splat(static_cast<uint32_t>(chunk * (kRowChunk / 4))) + lanes;
  U16 c3{};
  uint32_t k0 = static_cast<uint32_t>(query.seed);
  uint32_t k1 = static_cast<uint32_t>(query.seed >> 32);
  for (int round = 0; round < 10; ++round) {  // Philox 4x32-10, as in base/rng.h
    const Wide p0 = Lanes::mul_wide(c0, 0xD2511F53u);
    const Wide p1 = Lanes::mul_wide(c2, 0xCD9E8D57u);
    c0 = p1.high ^ c1 ^ splat(k0);
    c1 = p1.low;
    c2 = p0.high ^ c3 ^ splat(k1);
    c3 = p0.low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const U16 bound = splat(least);
  return Lanes::true_lanes((c0 >= bound) | (c1 >= bound) | (c2 >= bound) | (c3 >= bound)) != 0;
}

// Token i can win if -log(u) <= e^(scaled - best), where u = (word + 1/2) / 2^32. As -log(u) >= 1 -
// u, that needs about word >= 2^32 (1 - e^(scaled - best)). This uses the greatest value of the
// chunk instead of the token's own, and a margin for rounding.
template <RowLanes Lanes>
static uint32_t leading_chunks(const NoiseQuery& query) {
  const F16 tops = scaled(load_some(query.chunk_max, 0, query.num_chunks), query.scale);
  const F16 leads = tops - splat(query.best);
  const F16 reach = exp_nonpositive(leads < F16{} ? leads : F16{});
  uint32_t found = 0;
  for (int64_t c = 0; c < query.num_chunks; ++c) {
    if (!(tops[c] >= query.low) || reach[c] == 0.0f) continue;
    const double share = 1.0 - static_cast<double>(reach[c]) * 1.0001;
    const double least = share * 4294967296.0 - 2.0;
    const uint32_t bound = least > 0.0 ? static_cast<uint32_t>(least) : 0u;
    if (noise_reaches<Lanes>(query, query.first_chunk + c, bound)) found |= 1u << c;
  }
  return found;
}

// The table that the object file of an instruction set exports.
template <RowLanes Lanes>
constexpr RowKernels kRowKernelsOver = {&scan<Lanes>,          &exp_sums,       &exp_weights,
                                        &mass_above,           &collect<Lanes>, &split_band<Lanes>,
                                        &leading_chunks<Lanes>};

}  // namespace
}  // namespace quire
