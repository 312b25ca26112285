// Products with quantized weights on the tiles of AMX in software. The SIMD header comes first: the
// kernels are written over it.
// clang-format off
#include "kernels/cpu/simd/simd_portable.h"
#include "kernels/cpu/quant/quant_codes_portable.h"
#include "kernels/cpu/quant/tiles/quant_tile_codes_portable.h"
#include "kernels/cpu/simd/tiles_emulated.h"
// clang-format on

#include "kernels/cpu/quant/tiles/quant_tiles.inc"

namespace quire::cpu {

const QuantKernels kQuantAmxEmulated = kQuantOverTiles;

}  // namespace quire::cpu
