// Codes as the weights of tiles, in the vectors that a file is compiled for (simd-inl.h):
//   StripFactors   with set_scale(), set_zero(), which round 16 floats to float16
//   TileCodes<KIND>  codes as numbers, in units of kUnit
//   unpack_pairs<KIND, ZERO, J, END>(codes, strip, factors, out)
//                  makes pairs J … END - 1 of a chunk of a strip, [pair][16 outputs][2] bf16
//   ExactCodes<KIND>  codes that are exact in bf16
//   decode_exact<J, END>(codes, strip, out)
//                  makes pairs J … END - 1 of ExactCodes, as unpack_pairs() does
//   fused(a, b, c)  a * b + c rounded once
#pragma once

#if defined(QUIRE_VECTORS_AVX512)
#include "kernels/cpu/quant/tiles/quant_tile_codes_avx512.h"
#else
#include "kernels/cpu/quant/tiles/quant_tile_codes_portable.h"
#endif
