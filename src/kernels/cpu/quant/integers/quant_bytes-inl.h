// Multiplies quantized weights by int8 activations, as bytes. An instruction multiplies and adds
// four of them, and most codes become bytes by a mask.
//
//   sum over a group of c x = unit * (sum of q x' - offset * sum of x')
//
// x' are the codes of quant_x_codes-inl.h. Sums are exact, so kernels of 16 bits and of floats give
// the same sums.
#pragma once

#include "kernels/cpu/quant/integers/quant_integers-inl.h"
#include "kernels/cpu/quant/quant-inl.h"
#include "kernels/cpu/quant/quant_codes-inl.h"
#include "kernels/cpu/quant/quant_math-inl.h"
#include "kernels/cpu/quant/quant_panels-inl.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/quant/quant_x_codes-inl.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

template <QuantTraits Traits>
struct ByteMath : IntegerMath<Traits> {
  using Value = typename IntegerMath<Traits>::Value;
  template <CodeKind KIND>
  using Codes = ByteCodes<KIND>;
  static constexpr int kVectorPairs = 2;
  template <int ROWS, int NV, int COUNT>
  static inline __attribute__((always_inline)) void add(Sums16 (&sums)[ROWS][NV], int first,
                                                        const float* x,
                                                        const CodeQuads (&b)[COUNT]) {
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < COUNT; ++i) {
        sums[r][first + i] = code_quad_dot(sums[r][first + i], b[i], x + r);
      }
    }
  }
  static inline __attribute__((always_inline)) void store(Value* values, CodeQuads b) {
    store_code_quads(values, b);
  }
  template <int ROWS, int NV>
  static inline __attribute__((always_inline)) void add_stored(Sums16 (&sums)[ROWS][NV],
                                                               const float* x,
                                                               const Value* values) {
    CodeQuads b[NV];
#pragma GCC unroll 2
    for (int i = 0; i < NV; ++i) b[i] = load_code_quads(values + i * kPairValues);
    add(sums, 0, x, b);
  }
};

// Packs words of four bytes of x in the order of ByteCodes: from eight columns for codes of 4 bits,
// and from four columns for others.
static void pack_code_quads(const PackQuantXArgs& args) {
  constexpr int8_t kNibbleOrder[8] = {0, 4, 1, 5, 2, 6, 3, 7};
  constexpr int8_t kByteOrder[8] = {0, 2, 1, 3, 4, 6, 5, 7};
  const int8_t* order = args.layout->spec.bits == 4 ? kNibbleOrder : kByteOrder;
  for_code_groups(args, [&](int64_t row, int64_t g, const GroupOfCodes& group) {
    float* out = args.out + group.begin / 4 * args.num_rows + row;
    for (int64_t k = 0; k < group.end - group.begin; k += 8) {
      for (int64_t quad = 0; quad < 8; quad += 4) {
        int8_t bytes[4];
        for (int64_t i = 0; i < 4; ++i) bytes[i] = group.codes[k + order[quad + i]];
        __builtin_memcpy(out, bytes, sizeof(float));
        out += args.num_rows;
      }
    }
    put_group(args, row, g, group.unit, group.sum);
  });
}

// The table of kQuantIntegersOver for int8 activations.
template <QuantTraits Traits>
constexpr cpu::QuantKernels quant_over_bytes() {
  using Math = ByteMath<Traits>;
  cpu::QuantKernels kernels = kQuantIntegersOver<Traits>;
  kernels.pack_x[0] = kernels.pack_x[1] = nullptr;
  kernels.pack_x[2] = &pack_code_quads;
  kernels.panels[cpu::kCode2] = &quant_panels<Math, cpu::kCode2>;
  kernels.panels[cpu::kCode3] = &quant_panels<Math, cpu::kCode3>;
  kernels.panels[cpu::kCode4] = &quant_panels<Math, cpu::kCode4>;
  kernels.panels[cpu::kCode5] = &quant_panels<Math, cpu::kCode5>;
  kernels.panels[cpu::kCode6] = &quant_panels<Math, cpu::kCode6>;
  kernels.panels[cpu::kCode8] = &quant_panels<Math, cpu::kCode8>;
  kernels.panels[cpu::kTable4] = nullptr;
  return kernels;
}

}  // namespace
}  // namespace quire
