// The element-wise kernels for this instruction set.
#include "kernels/cpu/element/element-inl.h"

namespace quire::cpu {

const ElementKernels kElementAvx2 = kElementOverVectors;

}  // namespace quire::cpu
