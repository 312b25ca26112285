// The linear kernels on the tiles of AMX in software. The SIMD and tile headers come first: the
// kernels are written over them.
// clang-format off
#include "kernels/cpu/simd/simd_portable.h"
#include "kernels/cpu/simd/tiles_emulated.h"
#include "kernels/cpu/kernel_tables.h"
// clang-format on

#include "kernels/cpu/linear/linear_tiles.inc"

namespace quire::cpu {

const LinearKernels kLinearAmxEmulated = kLinearOverTiles;
const LinearKernels kLinearInt8AmxEmulated = kLinearInt8OverTiles;

}  // namespace quire::cpu
