// The linear kernels on the tiles of AMX in software.
#include "kernels/cpu/linear/linear_tiles-inl.h"

namespace quire::cpu {

const LinearKernels kLinearAmxEmulated = kLinearOverTiles;
const LinearKernels kLinearInt8AmxEmulated = kLinearInt8OverTiles;

}  // namespace quire::cpu
