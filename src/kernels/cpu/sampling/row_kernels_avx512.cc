// The passes over rows of logits for this instruction set.
#include <immintrin.h>

#include "kernels/cpu/sampling/row_kernels-inl.h"
#include "kernels/cpu/sampling/row_tables.h"

namespace quire {
namespace {

struct Avx512Lanes {
  QUIRE_ROW Wide mul_wide(U16 a, uint32_t m) {
    const __m512i in = reinterpret_cast<__m512i>(a);
    const __m512i factor = _mm512_set1_epi32(static_cast<int>(m));
    const __m512i even = _mm512_mul_epu32(in, factor);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(in, 32), factor);
    const __m512i low = _mm512_mask_shuffle_epi32(even, 0xAAAA, odd, _MM_PERM_CCAA);
    const __m512i high = _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
    return {reinterpret_cast<U16>(low), reinterpret_cast<U16>(high)};
  }
  QUIRE_ROW uint32_t true_lanes(I16 mask) {
    return _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask));
  }
  QUIRE_ROW int64_t put_lanes(F16 x, uint32_t lanes, float* out) {
    const __m512 put =
        _mm512_maskz_compress_ps(static_cast<__mmask16>(lanes), reinterpret_cast<__m512>(x));
    _mm512_storeu_ps(out, put);
    return __builtin_popcount(lanes);
  }
};

}  // namespace

const RowKernels kRowKernelsAvx512 = kRowKernelsOver<Avx512Lanes>;

}  // namespace quire
