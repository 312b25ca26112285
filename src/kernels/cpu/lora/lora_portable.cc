// Low-rank updates for this instruction set.
#include "kernels/cpu/lora/lora-inl.h"

namespace quire::cpu {

const LoraKernels kLoraPortable = kLoraOverVectors;

}  // namespace quire::cpu
