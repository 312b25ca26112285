// Multiplies int8 weights by activations that are quantized to int8. Sums are exact integers, so
// all instruction sets give the same bits.
#pragma once

#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/linear/int8_rows-inl.h"
#include "kernels/cpu/linear/linear-inl.h"
#include "kernels/cpu/linear/linear_outputs-inl.h"
#include "kernels/cpu/linear/linear_types-inl.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

template <LinearTraits Traits>
struct StoredInt8 : Traits {
  using Sum = Sums16;
  static constexpr int64_t kOutputs = kPanelWidth;
  static constexpr int64_t kStepK = 4;
  static constexpr bool kUnrolls = true;
  static constexpr int64_t kStepBytes = 4 * kPanelWidth;
  static constexpr int64_t kHalfBytes = 64;
  using XWord = uint32_t;
  static constexpr int kXWords = kQuadWords;

  static inline __attribute__((always_inline)) Sums16 none() { return zero_sums(); }
  template <int ROWS, int NV>
  static inline __attribute__((always_inline)) void step(const uint32_t* a, const uint8_t* w,
                                                         Sums16 (&acc)[ROWS][NV]) {
    Quads b[NV];
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) b[v] = load_quads(w + 64 * v);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < NV; ++v) acc[r][v] = quad_dot(acc[r][v], a + r * kXWords, b[v]);
    }
  }
  static inline __attribute__((always_inline)) F16 result(const Outputs& out, int64_t row, int v,
                                                          Sums16 sum) {
    return scaled(out, row, v, sums_to_float(sum, out.w_sums + 16 * v));
  }
};

// Packs rows as [k / 4][rows][kQuadWords].
static void pack_x_int8(const PackXArgs& args) {
  const int64_t stride = args.block_rows * kQuadWords;
  uint32_t* block =
      static_cast<uint32_t*>(args.out) +
      args.block_row * (args.padded_k / 4 * kQuadWords + kXPadding / int64_t{sizeof(uint32_t)});
  for (int64_t row = 0; row < args.num_rows; ++row) {
    uint32_t* out = block + (args.first_row - args.block_row + row) * kQuadWords;
    const RowCodes codes = row_codes(args, row);
    for (int64_t k = 0; k < args.padded_k; k += 16) {
      alignas(16) int8_t sixteen[16];
      store_codes(codes, k, sixteen);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        quad_words(out, sixteen + 4 * i);
        out += stride;
      }
    }
  }
}

// The table that an instruction set exports if Stored multiplies its int8 weights.
template <class Stored>
constexpr cpu::LinearKernels kLinearInt8Over = {
    .row_block = Stored::kManyRowsBlock,
    .few_rows_block = Stored::kRowBlock,
    .x_bytes = kQuadWords,
    .x_padding = kXPadding,
    .rows_apart = false,
    .scratch_bytes = kScratchBytes,
    .pack_x = &pack_x_int8,
    .pack_x_bf16 = nullptr,
    .panels = {},
    .panels_int8 = &linear_panels<Stored>,
};

}  // namespace
}  // namespace quire
