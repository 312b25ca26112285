#include <immintrin.h>

#include "kernels/cpu/sampling/row_tables.h"
#include "kernels/cpu/sampling/row_vectors.h"

namespace quire {
namespace {

static inline __attribute__((always_inline)) Wide mul_wide(U16 a, uint32_t m) {
  const __m512i in = reinterpret_cast<__m512i>(a);
  const __m512i factor = _mm512_set1_epi32(static_cast<int>(m));
  const __m512i even = _mm512_mul_epu32(in, factor);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(in, 32), factor);
  const __m512i low = _mm512_mask_shuffle_epi32(even, 0xAAAA, odd, _MM_PERM_CCAA);
  const __m512i high = _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
  return {reinterpret_cast<U16>(low), reinterpret_cast<U16>(high)};
}

// Bit j: lane j is true.
static inline __attribute__((always_inline)) uint32_t true_lanes(I16 mask) {
  return _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask));
}

// out[0, …) = the lanes whose bits are set, in order; up to 16 floats are overwritten. Returns how
// many.
static inline __attribute__((always_inline)) int64_t put_lanes(F16 x, uint32_t lanes, float* out) {
  const __m512 put =
      _mm512_maskz_compress_ps(static_cast<__mmask16>(lanes), reinterpret_cast<__m512>(x));
  _mm512_storeu_ps(out, put);
  return __builtin_popcount(lanes);
}

}  // namespace
}  // namespace quire

#include "kernels/cpu/sampling/row_kernels.inc"

namespace quire {
const RowKernels kRowKernelsAvx512 = {scan,    exp_sums,   exp_weights,   mass_above,
                                      collect, split_band, leading_chunks};
}  // namespace quire
