// The kinds of weights and activations that the linear kernel multiplies in float. Each kind is a
// type that has the LinearTraits of its instruction set and
//   Sum                 a vector of 16 running sums
//   kOutputs            the outputs that are side by side
//   kStepK, kStepBytes  the k and the bytes of a panel that one step takes
//   kUnrolls            whether kStepsPerPrefetch steps are unrolled
//   kHalfBytes          the bytes from the first 16 outputs of a step to the second
//   XWord, kXWords      the type and number of packed activations per row and step
//   step(x, w, sums), result(outputs, row, v, sum)
//   Decoded             the type of 16 decoded outputs, which has its own step() (kDecodedBlocks)
//   decode(w, out)      decodes a step of them
#pragma once

#include "kernels/cpu/linear/linear_outputs-inl.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

// The constants that an instruction set gives the linear kernels over vectors:
//   kRowBlock       the most rows of a block: their sums fit the registers beside the weights
//   kManyRowsBlock  the same for more than kFewBlockRows rows
//   kWideSums       the most sums with which all 32 outputs of a panel are taken at once
//   kWideBlock      the rows whose sums of all 32 outputs fill the registers, so that activations
//                   are loaded for each half of the outputs; LinearKernels::last_block (0: none)
//   kDecodedBlocks  the blocks of rows from which the weights of a chunk are decoded once for all
//                   blocks, 16 outputs at a time, instead of by each block (0: never)
//   kAheadFewRows   how many bytes ahead of the loads the weights are prefetched for few rows
//   kChunkBytes     the bytes of a panel that stay in the second-level cache for all blocks
//   kRowGroupBytes  the bytes of packed rows that stay there beside such a chunk
template <class Traits>
concept LinearTraits = requires {
  int64_t{Traits::kRowBlock};
  int64_t{Traits::kManyRowsBlock};
  int64_t{Traits::kWideSums};
  int64_t{Traits::kWideBlock};
  int64_t{Traits::kDecodedBlocks};
  int64_t{Traits::kAheadFewRows};
  int64_t{Traits::kChunkBytes};
  int64_t{Traits::kRowGroupBytes};
};

template <LinearTraits Traits>
struct FloatSums : Traits {
  using Sum = F16;
  static constexpr int64_t kOutputs = kPanelWidth;
  static constexpr int64_t kStepK = 2;
  static constexpr bool kUnrolls = false;
  using XWord = float;
  static constexpr int kXWords = 2;
  static inline __attribute__((always_inline)) F16 none() { return zero(); }
  // Adds the products of one k: an activation of each row times the weights, 16 of which weights(v)
  // returns.
  template <int ROWS, int NV, class Weights>
  static inline __attribute__((always_inline)) void add_products(const float* x, Weights weights,
                                                                 F16 (&acc)[ROWS][NV]) {
    if constexpr (NV == 2 && ROWS == Traits::kWideBlock) {
#pragma GCC unroll 2
      for (int v = 0; v < NV; ++v) {
        const F16 w = weights(v);
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r) add_product(acc[r][v], set1(x[r]), w);
        // Makes the compiler load activations again for the other half: registers cannot hold them.
        asm("" : "+r"(x));
      }
    } else {
      F16 w[NV];
#pragma GCC unroll 2
      for (int v = 0; v < NV; ++v) w[v] = weights(v);
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) {
        const F16 value = set1(x[r]);
#pragma GCC unroll 2
        for (int v = 0; v < NV; ++v) add_product(acc[r][v], value, w[v]);
      }
    }
  }
  static inline __attribute__((always_inline)) F16 result(const Outputs&, int64_t, int, F16 sum) {
    return sum;
  }
};

// Decoded weights are floats, [k][16].
template <LinearTraits Traits>
struct DecodedFloats : FloatSums<Traits> {
  static constexpr int64_t kOutputs = 16;
  // Another hardware thread on the core shares the decoding of instructions, so fewer instructions
  // beside the products cost less.
  static constexpr bool kUnrolls = true;
  static constexpr int64_t kStepBytes = 2 * 16 * 4;
  template <int ROWS, int NV>
  static inline __attribute__((always_inline)) void step(const float* a, const uint8_t* w,
                                                         F16 (&acc)[ROWS][NV]) {
    static_assert(NV == 1);
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const F16 b = load(reinterpret_cast<const float*>(w + j * 64));
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) add_product(acc[r][0], set1(a[j * ROWS + r]), b);
    }
  }
};

template <LinearTraits Traits>
struct StoredF32 : FloatSums<Traits> {
  using Decoded = DecodedFloats<Traits>;
  static inline __attribute__((always_inline)) void decode(const uint8_t* w, uint8_t* out) {
    for (int j = 0; j < 2; ++j) __builtin_memcpy(out + j * 64, w + j * 128, 64);
  }
  static constexpr int64_t kStepBytes = 2 * kPanelWidth * 4;
  static constexpr int64_t kHalfBytes = 64;
  template <int ROWS, int NV>
  static inline __attribute__((always_inline)) void step(const float* a, const uint8_t* w,
                                                         F16 (&acc)[ROWS][NV]) {
    for (int j = 0; j < 2; ++j) {
      const auto weights = [&](int v) __attribute__((always_inline)) {
        return load(reinterpret_cast<const float*>(w + j * 128 + v * 64));
      };
      FloatSums<Traits>::add_products(a + j * ROWS, weights, acc);
    }
  }
};

template <LinearTraits Traits>
struct StoredF16 : FloatSums<Traits> {
  using Decoded = DecodedFloats<Traits>;
  static inline __attribute__((always_inline)) void decode(const uint8_t* w, uint8_t* out) {
    for (int j = 0; j < 2; ++j) {
      store(reinterpret_cast<float*>(out + j * 64),
            load_f16(reinterpret_cast<const uint16_t*>(w + j * 64)));
    }
  }
  static constexpr int64_t kStepBytes = 2 * kPanelWidth * 2;
  static constexpr int64_t kHalfBytes = 32;
  template <int ROWS, int NV>
  static inline __attribute__((always_inline)) void step(const float* a, const uint8_t* w,
                                                         F16 (&acc)[ROWS][NV]) {
    for (int j = 0; j < 2; ++j) {
      const auto weights = [&](int v) __attribute__((always_inline)) {
        return load_f16(reinterpret_cast<const uint16_t*>(w + j * 64 + v * 32));
      };
      FloatSums<Traits>::add_products(a + j * ROWS, weights, acc);
    }
  }
};

template <LinearTraits Traits>
struct StoredBf16 : FloatSums<Traits> {
  using Decoded = DecodedFloats<Traits>;
  static inline __attribute__((always_inline)) void decode(const uint8_t* w, uint8_t* out) {
    F16 even, odd;
    load_bf16_pairs(reinterpret_cast<const uint16_t*>(w), &even, &odd);
    store(reinterpret_cast<float*>(out), even);
    store(reinterpret_cast<float*>(out + 64), odd);
  }
  static constexpr int64_t kStepBytes = 2 * kPanelWidth * 2;
  static constexpr int64_t kHalfBytes = 64;
  // Adds the even k of all rows and then the odd ones, for which the weights are loaded again, so
  // that fewer values are live at a time. The compiler would load once, and spill sums with 16
  // registers.
  template <int ROWS, int NV>
  static inline __attribute__((always_inline)) void step(const float* a, const uint8_t* w,
                                                         F16 (&acc)[ROWS][NV]) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const auto weights = [&](int v) __attribute__((always_inline)) {
        const auto* pairs = reinterpret_cast<const uint16_t*>(w + v * 64);
        return j == 0 ? load_bf16_even(pairs) : load_bf16_odd(pairs);
      };
      FloatSums<Traits>::add_products(a + j * ROWS, weights, acc);
      asm("" : "+r"(w));
    }
  }
};

#ifdef __AVX512BF16__
// Activations are bf16 pairs, [k / 2][rows][2]: one 32-bit word per row and pair.
template <LinearTraits Traits>
struct StoredBf16Dot : FloatSums<Traits> {
  using XWord = uint32_t;
  static constexpr int kXWords = 1;
  static constexpr int64_t kStepBytes = 2 * kPanelWidth * 2;
  static constexpr int64_t kHalfBytes = 64;
  template <int ROWS, int NV>
  static inline __attribute__((always_inline)) void step(const uint32_t* a, const uint8_t* w,
                                                         F16 (&acc)[ROWS][NV]) {
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < NV; ++v) {
        acc[r][v] = dot_bf16_pairs(acc[r][v], a[r], reinterpret_cast<const uint16_t*>(w + v * 64));
      }
    }
  }
};
#endif

}  // namespace
}  // namespace quire
