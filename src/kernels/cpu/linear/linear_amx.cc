// The linear kernels on the tiles of AMX.
#include "kernels/cpu/linear/linear_tiles-inl.h"

namespace quire::cpu {

const LinearKernels kLinearAmx = kLinearOverTiles;
const LinearKernels kLinearInt8Amx = kLinearInt8OverTiles;

}  // namespace quire::cpu
