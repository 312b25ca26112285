// The attention kernels on the tiles of AMX, for caches in pairs.
#include "kernels/cpu/attention/attention_tiles-inl.h"

namespace quire::cpu {

const AttentionKernels kAttentionAmx = kAttentionOverTiles;

}  // namespace quire::cpu
