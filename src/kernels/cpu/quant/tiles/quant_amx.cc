// Products with quantized weights on the tiles of AMX. The SIMD header comes first: the kernels
// are written over it.
// clang-format off
#include "kernels/cpu/simd/simd_avx512.h"
#include "kernels/cpu/quant/quant_codes_avx512.h"
#include "kernels/cpu/quant/tiles/quant_tile_codes_avx512.h"
#include "kernels/cpu/simd/tiles_amx.h"
// clang-format on

#include "kernels/cpu/quant/tiles/quant_tiles.inc"

namespace quire::cpu {

const QuantKernels kQuantAmx = kQuantOverTiles;

}  // namespace quire::cpu
