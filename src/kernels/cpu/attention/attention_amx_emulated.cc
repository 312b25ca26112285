// The attention kernels on the tiles of AMX in software, for caches in pairs.
#include "kernels/cpu/attention/attention_tiles-inl.h"

namespace quire::cpu {

const AttentionKernels kAttentionAmxEmulated = kAttentionOverTiles;

}  // namespace quire::cpu
