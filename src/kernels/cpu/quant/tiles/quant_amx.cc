// Products with quantized weights on the tiles of AMX.
#include "kernels/cpu/quant/tiles/quant_tiles-inl.h"

namespace quire::cpu {

const QuantKernels kQuantAmx = kQuantOverTiles;

}  // namespace quire::cpu
