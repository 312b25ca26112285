// Measures the limits of a core, which are the benchmark's bounds: multiply-adds from registers,
// and bytes read from memory.
#pragma once

#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

// kFloatSums and kInt8Sums are the independent sums of 16 lanes: as many as the registers hold and
// the latency needs.
template <class Traits>
concept ProbeTraits = requires {
  int{Traits::kFloatSums};
  int{Traits::kInt8Sums};
};

// Returns the floating point operations done. The sum goes to *sink so that compilers keep the
// loop.
template <ProbeTraits Traits>
static double fma_probe(int64_t iterations, float* sink) {
  constexpr int kSums = Traits::kFloatSums;
  F16 acc[kSums];
  for (int i = 0; i < kSums; ++i) acc[i] = set1(static_cast<float>(i));
#ifdef __AVX512BF16__
  alignas(64) uint16_t pairs[32] = {};
  uint32_t word = 0;
  for (int64_t n = 0; n < iterations; ++n) {
    asm volatile("" : "+r"(word));
#pragma GCC unroll 32
    for (int i = 0; i < kSums; ++i) acc[i] = dot_bf16_pairs(acc[i], word, pairs);
  }
  constexpr double kFlops = 64.0;
#else
  F16 factor = set1(0.999f);
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 32
    for (int i = 0; i < kSums; ++i) acc[i] = fma(acc[i], factor, factor);
  }
  constexpr double kFlops = 32.0;
#endif
  F16 sum = zero();
  for (int i = 0; i < kSums; ++i) sum = add(sum, acc[i]);
  *sink += reduce_add(sum);
  return kFlops * kSums * static_cast<double>(iterations);
}

// Does the same for exact sums of int8 products.
template <ProbeTraits Traits>
static double int8_probe(int64_t iterations, float* sink) {
  constexpr int kSums = Traits::kInt8Sums;
  // The compiler does not know these values, and so cannot compute equal sums only once.
  alignas(64) uint8_t weights[64] = {};
  uint32_t words[kSums][kQuadWords] = {};
  asm volatile("" : "+m"(words), "+m"(weights));
  const Quads w = load_quads(weights);
  Sums16 acc[kSums];
#pragma GCC unroll 32
  for (int i = 0; i < kSums; ++i) acc[i] = quad_dot(zero_sums(), words[i], w);
  for (int64_t n = 0; n < iterations; ++n) {
    asm volatile("" : "+m"(words));
#pragma GCC unroll 32
    for (int i = 0; i < kSums; ++i) acc[i] = quad_dot(acc[i], words[i], w);
  }
  const int32_t no_sums[16] = {};
  F16 sum = zero();
#pragma GCC unroll 32
  for (int i = 0; i < kSums; ++i) sum = add(sum, sums_to_float(acc[i], no_sums));
  *sink += reduce_add(sum);
  return 128.0 * kSums * static_cast<double>(iterations);
}

// Reads `bytes` (a multiple of 256) as one stream with software prefetch, 64 bytes at a time.
static void read_probe(const void* data, int64_t bytes, float* sink) {
  const float* p = static_cast<const float*>(data);
  F16 acc[4] = {zero(), zero(), zero(), zero()};
  for (int64_t i = 0; i < bytes / 4; i += 64) {
    for (int j = 0; j < 4; ++j) {
      prefetch(p + i + 16 * j + 512);
      acc[j] = max(acc[j], load(p + i + 16 * j));
    }
  }
  *sink += reduce_max(max(max(acc[0], acc[1]), max(acc[2], acc[3])));
}

// The table that the object file of an instruction set exports.
template <ProbeTraits Traits>
constexpr cpu::ProbeKernels kProbeOver = {.multiply_add = &fma_probe<Traits>,
                                          .multiply_add_int8 = &int8_probe<Traits>,
                                          .read = &read_probe};

}  // namespace
}  // namespace quire
