#include <immintrin.h>

#include "kernels/cpu/sampling/row_tables.h"
#include "kernels/cpu/sampling/row_vectors.h"

namespace quire {
namespace {

static inline __attribute__((always_inline)) Wide mul_wide(U16 a, uint32_t m) {
  const __m256i factor = _mm256_set1_epi64x(static_cast<long long>(m));
  __m256i in[2], low[2], high[2];
  __builtin_memcpy(in, &a, sizeof in);
  for (int half = 0; half < 2; ++half) {
    const __m256i even = _mm256_mul_epu32(in[half], factor);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(in[half], 32), factor);
    low[half] = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
    high[half] = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
  }
  Wide out;
  __builtin_memcpy(&out.low, low, sizeof low);
  __builtin_memcpy(&out.high, high, sizeof high);
  return out;
}

// Bit j: lane j is true.
static inline __attribute__((always_inline)) uint32_t true_lanes(I16 mask) {
  __m256 half[2];
  __builtin_memcpy(half, &mask, sizeof half);
  return static_cast<uint32_t>(_mm256_movemask_ps(half[0])) |
         static_cast<uint32_t>(_mm256_movemask_ps(half[1])) << 8;
}

// out[0, …) = the lanes whose bits are set, in order; up to 16 floats are overwritten. Returns how
// many.
static inline __attribute__((always_inline)) int64_t put_lanes(F16 x, uint32_t lanes, float* out) {
  int64_t count = 0;
  for (; lanes != 0; lanes &= lanes - 1) out[count++] = x[__builtin_ctz(lanes)];
  return count;
}

}  // namespace
}  // namespace quire

#include "kernels/cpu/sampling/row_kernels.inc"

namespace quire {
const RowKernels kRowKernelsAvx2 = {scan,    exp_sums,   exp_weights,   mass_above,
                                    collect, split_band, leading_chunks};
}  // namespace quire
