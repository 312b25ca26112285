// Products with quantized weights on the tiles of AMX in software.
#include "kernels/cpu/quant/tiles/quant_tiles-inl.h"

namespace quire::cpu {

const QuantKernels kQuantAmxEmulated = kQuantOverTiles;

}  // namespace quire::cpu
