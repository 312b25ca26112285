// The passes over rows of logits for this instruction set.
#include <immintrin.h>

#include "kernels/cpu/sampling/row_kernels-inl.h"
#include "kernels/cpu/sampling/row_tables.h"

namespace quire {
namespace {

struct Avx2Lanes {
  QUIRE_ROW Wide mul_wide(U16 a, uint32_t m) {
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
  QUIRE_ROW uint32_t true_lanes(I16 mask) {
    __m256 half[2];
    __builtin_memcpy(half, &mask, sizeof half);
    return static_cast<uint32_t>(_mm256_movemask_ps(half[0])) |
           static_cast<uint32_t>(_mm256_movemask_ps(half[1])) << 8;
  }
  QUIRE_ROW int64_t put_lanes(F16 x, uint32_t lanes, float* out) {
    return put_each_lane(x, lanes, out);
  }
};

}  // namespace

const RowKernels kRowKernelsAvx2 = kRowKernelsOver<Avx2Lanes>;

}  // namespace quire
