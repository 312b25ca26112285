// Low-rank updates for this instruction set.
#include "kernels/cpu/lora/lora-inl.h"

namespace quire::cpu {

const LoraKernels kLoraAvx512 = kLoraOverVectors;

}  // namespace quire::cpu
