// The linear kernels on the tiles of AMX. The SIMD and tile headers come first: the kernels are
// written over them.
// clang-format off
#include "kernels/cpu/simd/simd_avx512.h"
#include "kernels/cpu/simd/tiles_amx.h"
#include "kernels/cpu/kernel_tables.h"
// clang-format on

#include "kernels/cpu/linear/linear_tiles.inc"

namespace quire::cpu {

const LinearKernels kLinearAmx = kLinearOverTiles;
const LinearKernels kLinearInt8Amx = kLinearInt8OverTiles;

}  // namespace quire::cpu
