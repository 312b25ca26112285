#include <immintrin.h>

#include "sample/row_tables.h"
#include "sample/row_vectors.h"

namespace quire {
namespace {

static inline __attribute__((always_inline)) Wide mul_wide(U16 a, uint32_t m) {
  const __m512i in = reinterpret_cast<__m512i>(a);
  const __m512i factor = _mm512_set1_epi32(static_cast<int>(m));
  const __m512i even = _mm512_mul_epu32(in, factor);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(in, 32), factor);
  const __m512i low = _mm512_mullo_epi32(in, factor);
  const __m512i high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
  return {reinterpret_cast<U16>(low), reinterpret_cast<U16>(high)};
}

// Bit j: lane j is true.
static inline __attribute__((always_inline)) uint32_t true_lanes(I16 mask) {
  return _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask));
}

}  // namespace
}  // namespace quire

#include "sample/row_kernels.inc"

namespace quire {
const RowKernels kRowKernelsAvx512 = {scan, exp_sums, mass_above, collect, leading_chunks};
}  // namespace quire
