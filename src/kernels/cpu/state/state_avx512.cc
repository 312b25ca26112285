// The kernels of states for this instruction set.
#include "kernels/cpu/state/state_table-inl.h"

namespace quire::cpu {

const StateKernels kStateAvx512 = kStateOverVectors;

}  // namespace quire::cpu
