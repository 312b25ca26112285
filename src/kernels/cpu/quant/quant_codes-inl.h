// Includes the decoders for the vectors that a file is compiled for (simd-inl.h).
#pragma once

#if defined(QUIRE_VECTORS_AVX512)
#include "kernels/cpu/quant/quant_codes_avx512.h"
#elif defined(QUIRE_VECTORS_AVX2)
#include "kernels/cpu/quant/quant_codes_avx2.h"
#else
#include "kernels/cpu/quant/quant_codes_portable.h"
#endif
