// These types say how the kernels over vectors sum the groups of quantized weights.
//
//   y = sum over groups g, ascending, of scale[g] * (sum over k in g of c x) - min[g] * (sum of x)
//
// A Math sums a group: FloatMath in floats, CodeMath for activations that are codes too,
// IntegerMath (quant_integers-inl.h) and ByteMath (quant_bytes-inl.h) in integers. It has the
// QuantTraits of its instruction set.
#pragma once

#include "kernels/cpu/quant/quant_codes-inl.h"
#include "kernels/cpu/quant/quant_panels-inl.h"
#include "kernels/cpu/quant/quant_scales-inl.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

// The constants that an instruction set gives the kernels over vectors, some of them by kind of
// code and by whether scales are read without being expanded first (DIRECT):
//   kFusedRows<KIND>           the most rows that are multiplied within registers, in blocks; the
//                              least for codes of 8 bits
//   kQuadRows<KIND, DIRECT>    the most rows of a block that take four strips at once, not two
//   kRowBlock, kBlockStrips    rows and strips (1 or 2) of a block, whose sums fit the registers
//   kSmallGroupRows            rows of a block if groups are short
//   kSumVectors                the sums and totals that registers hold
//   kDecodedStrips<KIND>       the strips whose values they hold as well (1, 2 or 4)
//   kPairsApart<KIND, DIRECT>  whether the compiler is kept from mixing the pairs of k, with one
//                              row or two
template <class Traits>
concept QuantTraits = requires {
  int64_t{Traits::template kFusedRows<cpu::kCode4>};
  int64_t{Traits::template kQuadRows<cpu::kCode4, false>};
  int64_t{Traits::kRowBlock};
  int64_t{Traits::kBlockStrips};
  int64_t{Traits::kSmallGroupRows};
  int64_t{Traits::kSumVectors};
  int64_t{Traits::template kDecodedStrips<cpu::kCode4>};
  bool{Traits::template kPairsApart<cpu::kCode4, false>};
};

// And for products in floats:
//   kFloatBlocks  whether blocks read decoded weights as floats, not bf16
//   kLooksUpAll   whether decoders take the value of every 4-bit code from the table
template <class Traits>
concept QuantFloatTraits = QuantTraits<Traits> && requires {
  bool{Traits::kFloatBlocks};
  bool{Traits::kLooksUpAll};
};

// Computes sums[r] += x[r] * b for a pair of k and the strips from `first` on.
template <int ROWS, int NV, int COUNT>
QUIRE_SIMD void add_to_rows(F16 (&sums)[ROWS][NV], int first, const float* x,
                            const Pairs (&b)[COUNT]) {
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
    const PairX pair = broadcast_pair(x + r * kPairSlots);
#pragma GCC unroll 4
    for (int i = 0; i < COUNT; ++i) sums[r][first + i] = pair_fma(sums[r][first + i], pair, b[i]);
  }
}

// The decoded values that stay in the cache for blocks of rows, [pair of k][strip][32]. Here they
// are bf16, which each block turns into Pairs.
template <bool kAsFloats>
struct StoredValues {
  using Value = uint16_t;
  static constexpr int64_t kPieceStrips = 2;
  static inline __attribute__((always_inline)) void store(Value* values, Pairs b) {
    store_pairs(values, b);
  }
  // Adds the products of one pair of k. Without a dot product all rows add the even k first and
  // then the odd k, which needs half the registers.
  template <int ROWS, int NV>
  static inline __attribute__((always_inline)) void add_stored(F16 (&sums)[ROWS][NV],
                                                               const float* x,
                                                               const Value* values) {
    Pairs b[NV];
#pragma GCC unroll 2
    for (int i = 0; i < NV; ++i) b[i] = load_pairs(values + i * kPairValues);
#ifdef __AVX512BF16__
    add_to_rows(sums, 0, x, b);
#else
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
      const F16 even = set1(x[r * kPairSlots]);
#pragma GCC unroll 2
      for (int i = 0; i < NV; ++i) sums[r][i] = fma(even, b[i].even, sums[r][i]);
    }
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
      const F16 odd = set1(x[r * kPairSlots + 1]);
#pragma GCC unroll 2
      for (int i = 0; i < NV; ++i) sums[r][i] = fma(odd, b[i].odd, sums[r][i]);
    }
#endif
  }
};

#ifndef __AVX512BF16__
// Here the values are floats of one strip: twice the bytes, but a block only loads them.
template <>
struct StoredValues<true> {
  using Value = float;
  static constexpr int64_t kPieceStrips = 1;
  static inline __attribute__((always_inline)) void store(Value* values, Pairs b) {
    quire::store(values, b.even);
    quire::store(values + kQuantStrip, b.odd);
  }
  template <int ROWS, int NV>
  static inline __attribute__((always_inline)) void add_stored(F16 (&sums)[ROWS][NV],
                                                               const float* x,
                                                               const Value* values) {
    static_assert(NV == 1);
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const F16 b = load(values + j * kQuantStrip);
      asm("" : "+r"(values));  // or the compiler would load both k first, and spill sums
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) {
        sums[r][0] = fma(set1(x[r * kPairSlots + j]), b, sums[r][0]);
      }
    }
  }
};
#endif

// Sums in float, of products or over groups.
struct FloatSums {
  using Sum = F16;
  static inline __attribute__((always_inline)) F16 none() { return zero(); }
  static inline __attribute__((always_inline)) void settle(F16&) {}
};

// Multiplies the values of codes as Pairs, in float. A group has one slot: minus its sum of x.
template <QuantFloatTraits Traits>
struct FloatMath : Traits, FloatSums, StoredValues<Traits::kFloatBlocks> {
  template <CodeKind KIND>
  using Codes = Decoder<KIND>;
  static constexpr int kPairSlots = quire::kPairSlots;
  static constexpr int kVectorPairs = 1;  // pairs of k in a vector of values and a slot of x
  static constexpr int kGroupSlots = 1;
  static constexpr bool kPiecesCutGroups = true;  // groups of more than kQuantSpan columns

  static inline __attribute__((always_inline)) F16 value(F16 sum, const float*, int64_t) {
    return sum;
  }
  template <int ROWS, int NV, int COUNT>
  static inline __attribute__((always_inline)) void add(F16 (&sums)[ROWS][NV], int first,
                                                        const float* x, const Pairs (&b)[COUNT]) {
    add_to_rows(sums, first, x, b);
  }
};

// Multiplies activations that are int8 codes, as floats too; the sums of their products are exact.
// A group has two slots: minus its sum of x, and its unit.
template <QuantFloatTraits Traits>
struct CodeMath : FloatMath<Traits> {
  static constexpr bool kPiecesCutGroups = false;
  static constexpr int kGroupSlots = 2;
  static constexpr int kUnit = 1;
  static inline __attribute__((always_inline)) F16 value(F16 sum, const float* group,
                                                         int64_t rows) {
    return mul(sum, set1(group[kUnit * rows]));
  }
};

template <class Math, int ROWS, int NV>
struct Sums {
  typename Math::Sum v[ROWS][NV];
  QUIRE_SIMD_MEMBER void clear() {
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < NV; ++i) v[r][i] = Math::none();
    }
  }
  // Makes the compiler add the products of COUNT strips from `first` on before it computes others.
  // GCC 12 would keep the products of many pairs in memory and add them all at the end.
  template <int COUNT>
  QUIRE_SIMD_MEMBER void settle(int first) {
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < COUNT; ++i) Math::settle(v[r][first + i]);
    }
  }
};

// Totals over groups are in registers if they fit there with the sums, otherwise in memory:
// [rows][32], or [rows][64] for four strips.
template <class Math, int ROWS, int NV>
constexpr bool kTotalsInRegisters = 2 * ROWS* NV <= Math::kSumVectors;

template <int ROWS, int NV, bool kInRegisters>
struct Totals {
  Sums<FloatSums, ROWS, NV> sums;
  QUIRE_SIMD_MEMBER F16 get(int r, int i) const { return sums.v[r][i]; }
  QUIRE_SIMD_MEMBER void set(int r, int i, F16 v) { sums.v[r][i] = v; }
};
template <int NV>
constexpr int64_t kTotalsStride = NV > 2 ? kQuantPanel : kQuantHalf;
template <int ROWS, int NV>
struct Totals<ROWS, NV, false> {
  float* at;
  QUIRE_SIMD_MEMBER F16 get(int r, int i) const {
    return load(at + r * kTotalsStride<NV> + i * kQuantStrip);
  }
  QUIRE_SIMD_MEMBER void set(int r, int i, F16 v) {
    store(at + r * kTotalsStride<NV> + i * kQuantStrip, v);
  }
};

// Adds the group's sums to the totals and clears them. scale(i) and zero_point(i) are those of
// strip i, and `group` has the slots of x's group, [kGroupSlots][ROWS].
template <ZeroKind KIND, class Math, int ROWS, int NV, class Scale, class Zero, bool kInRegisters>
QUIRE_SIMD void close_group_of(Scale scale, Zero zero_point, const float* group,
                               Sums<Math, ROWS, NV>& sums, Totals<ROWS, NV, kInRegisters>& total) {
#pragma GCC unroll 4
  for (int i = 0; i < NV; ++i) {
    const F16 factor = scale(i);
    const F16 point = KIND == ZeroKind::kNone ? factor : zero_point(i);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
      F16 sum = Math::value(sums.v[r][i], group + r, ROWS);
      if (KIND == ZeroKind::kInteger) sum = fma(set1(group[r]), point, sum);
      sum = fma(factor, sum, total.get(r, i));
      if (KIND == ZeroKind::kMin) sum = fma(set1(group[r]), point, sum);
      total.set(r, i, sum);
    }
  }
  sums.clear();
}
template <class Math, int ROWS, int NV, class Scale, class Zero, bool kInRegisters>
QUIRE_SIMD void close_group(ZeroKind kind, Scale scale, Zero zero_point, const float* group,
                            Sums<Math, ROWS, NV>& sums, Totals<ROWS, NV, kInRegisters>& total) {
  switch (kind) {
    case ZeroKind::kNone:
      return close_group_of<ZeroKind::kNone>(scale, zero_point, group, sums, total);
    case ZeroKind::kInteger:
      return close_group_of<ZeroKind::kInteger>(scale, zero_point, group, sums, total);
    case ZeroKind::kMin:
      return close_group_of<ZeroKind::kMin>(scale, zero_point, group, sums, total);
  }
}

template <class Math>
QUIRE_SIMD int64_t x_offset(const QuantLayout& layout, int64_t row) {
  return row * (layout.padded_k + cpu::kQuantXPadding) / 2 * Math::kPairSlots;
}

}  // namespace
}  // namespace quire
