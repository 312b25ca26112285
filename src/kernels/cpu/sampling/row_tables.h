// The tables that row_kernels() chooses from, one per instruction set.
#pragma once

#include "kernels/cpu/sampling/row_kernels.h"

namespace quire {

extern const RowKernels kRowKernelsPortable;
extern const RowKernels kRowKernelsAvx2;
extern const RowKernels kRowKernelsAvx512;

}  // namespace quire
