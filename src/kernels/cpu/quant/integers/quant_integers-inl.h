// Multiplies quantized weights in integers, for codes that stand for integers. If an instruction
// multiplies and adds pairs of 16-bit integers, this takes half the instructions of floats and no
// conversion of codes.
//
//   sum over a group of c x = unit * (sum of q x' - offset * sum of x')
//
// x' is x, rounded to bf16, in units of a power of two, with which the largest |x| of the group has
// 15 bits. So x' is exact for |x| down to 2^-7 of that largest, and below within 2^-16 of the
// largest. The sums are exact, so their order does not matter. Scales, minima and totals are as in
// quant_math-inl.h.
#pragma once

#include "kernels/cpu/quant/quant-inl.h"
#include "kernels/cpu/quant/quant_blocks-inl.h"
#include "kernels/cpu/quant/quant_codes-inl.h"
#include "kernels/cpu/quant/quant_math-inl.h"
#include "kernels/cpu/quant/quant_panels-inl.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/quant/quant_x-inl.h"
#include "kernels/cpu/quant/quant_x_codes-inl.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

// The slots of a group: minus its sum of x, its unit, and (an int32) -offset * the sum of x'.
struct IntegerSlots {
  static constexpr int kGroupSlots = 3;
  static constexpr int kUnit = 1, kStart = 2;
};

template <QuantTraits Traits>
struct IntegerMath : Traits, IntegerSlots {
  using Sum = Sums16;
  template <CodeKind KIND>
  using Codes = IntegerCodes<KIND>;
  static constexpr int kPairSlots = 1;
  static constexpr int kVectorPairs = 1;
  static constexpr bool kPiecesCutGroups = false;
  static_assert(cpu::kMostIntegerGroup <= kQuantSpan);

  static inline __attribute__((always_inline)) Sums16 none() { return zero_sums(); }
  static inline __attribute__((always_inline)) void settle(Sums16& sum) { settle_sums(sum); }
  static inline __attribute__((always_inline)) F16 value(Sums16 sum, const float* group,
                                                         int64_t rows) {
    return mul(integer_sums_to_float(add_to_all(sum, group + kStart * rows)),
               set1(group[kUnit * rows]));
  }
  template <int ROWS, int NV, int COUNT>
  static inline __attribute__((always_inline)) void add(Sums16 (&sums)[ROWS][NV], int first,
                                                        const float* x,
                                                        const IntegerPairs (&b)[COUNT]) {
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
      const auto pair = broadcast_integer_pair(x + r);
#pragma GCC unroll 4
      for (int i = 0; i < COUNT; ++i) {
        sums[r][first + i] = pair_dot(sums[r][first + i], pair, b[i]);
      }
    }
  }
  using Value = uint16_t;
  static constexpr int64_t kPieceStrips = 2;
  static inline __attribute__((always_inline)) void store(Value* values, IntegerPairs b) {
    store_integer_pairs(values, b);
  }
  template <int ROWS, int NV>
  static inline __attribute__((always_inline)) void add_stored(Sums16 (&sums)[ROWS][NV],
                                                               const float* x,
                                                               const Value* values) {
    IntegerPairs b[NV];
#pragma GCC unroll 2
    for (int i = 0; i < NV; ++i) b[i] = load_integer_pairs(values + i * kPairValues);
    add(sums, 0, x, b);
  }
};

struct Units {
  float unit;
  float inverse;
};
// Returns the units of a group whose largest |x| is `most`. They are 0 if `most` is too small.
QUIRE_SIMD Units units_of(float most) {
  uint32_t bits;
  __builtin_memcpy(&bits, &most, sizeof bits);
  const uint32_t exponent = bits >> 23;
  if (exponent < 32) return {0.0f, 0.0f};
  const uint32_t unit_bits = (exponent - 14) << 23, inverse_bits = (268 - exponent) << 23;
  Units units;
  __builtin_memcpy(&units.unit, &unit_bits, sizeof unit_bits);
  __builtin_memcpy(&units.inverse, &inverse_bits, sizeof inverse_bits);
  return units;
}

// Stores the slots of a group.
static void put_group(const PackQuantXArgs& args, int64_t row, int64_t g, float unit, int32_t sum) {
  float* group = args.groups + g * IntegerSlots::kGroupSlots * args.num_rows + row;
  const uint32_t start =
      static_cast<uint32_t>(-args.layout->integer_offset) * static_cast<uint32_t>(sum);
  group[0] = -static_cast<float>(sum) * unit;
  group[IntegerSlots::kUnit * args.num_rows] = unit * args.layout->integer_unit;
  __builtin_memcpy(group + IntegerSlots::kStart * args.num_rows, &start, sizeof start);
}

static void pack_integer_x(const PackQuantXArgs& args) {
  const QuantLayout& layout = *args.layout;
  for (int64_t r = 0; r < args.num_rows; ++r) {
    const float* x = args.x + r * args.x_stride;
    for (int64_t g = 0; g < layout.num_groups; ++g) {
      const int64_t begin = g * layout.group_size;
      const int64_t end = min_of(begin + layout.group_size, layout.padded_k);
      F16 rounded[cpu::kMostIntegerGroup / 16];
      F16 most = zero(), poison = zero();  // x * 0 is NaN where x is not finite
      for (int64_t k = begin; k < end; k += 16) {
        const F16 v = round_to_bf16(load_x(args, x, k));
        rounded[(k - begin) / 16] = v;
        most = max(abs(v), most);
        poison = add(poison, mul(v, zero()));
      }
      const Units units = units_of(reduce_max(most));
      int32_t sum = 0;
      for (int64_t k = begin; k < end; k += 16) {
        alignas(32) int16_t codes[16];
        store_i16(codes, mul(rounded[(k - begin) / 16], set1(units.inverse)));
        float* out = args.out + k / 2 * args.num_rows + r;
        for (int64_t i = 0; i < 8; ++i) {
          __builtin_memcpy(out + i * args.num_rows, codes + 2 * i, sizeof(float));
          sum += codes[2 * i] + codes[2 * i + 1];
        }
      }
      put_group(args, r, g, units.unit + reduce_add(poison), sum);
    }
  }
}

// Packs int8 activations as the 16-bit words that IntegerMath multiplies.
static void pack_code_pairs(const PackQuantXArgs& args) {
  for_code_groups(args, [&](int64_t row, int64_t g, const GroupOfCodes& group) {
    float* out = args.out + group.begin / 2 * args.num_rows + row;
    for (int64_t i = 0; i < group.end - group.begin; i += 2) {
      const int16_t pair[2] = {group.codes[i], group.codes[i + 1]};
      __builtin_memcpy(out, pair, sizeof(float));
      out += args.num_rows;
    }
    put_group(args, row, g, group.unit, group.sum);
  });
}

// The table that an instruction set exports for products in integers.
template <QuantTraits Traits, class Math = IntegerMath<Traits>>
constexpr cpu::QuantKernels kQuantIntegersOver = {
    .fused_rows = min_of(Traits::template kFusedRows<cpu::kCode8>, Traits::kSmallGroupRows),
    .row_block = Traits::kRowBlock,
    .small_group_rows = Traits::kSmallGroupRows,
    .x_padding = cpu::kQuantXPadding,
    .pair_slots = Math::kPairSlots,
    .group_slots = IntegerSlots::kGroupSlots,
    .scratch_rows = kGroupRows<Math> + 2 * Traits::kRowBlock,
    .scratch_row_bytes = kBlockRowBytes,
    .pack_x = {nullptr, &pack_integer_x, &pack_code_pairs},
    .panels = {&quant_panels<Math, cpu::kCode2>, &quant_panels<Math, cpu::kCode3>,
               &quant_panels<Math, cpu::kCode4>, &quant_panels<Math, cpu::kCode5>,
               &quant_panels<Math, cpu::kCode6>, &quant_panels<Math, cpu::kCode8>,
               &quant_panels<Math, cpu::kTable4>, nullptr},
};

}  // namespace
}  // namespace quire
