#include "kernels/cpu/sampling/row_kernels.h"

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/sampling/row_tables.h"

namespace quire {

const RowKernels& row_kernels(Isa isa) {
#ifdef QUIRE_X86_KERNELS
  return cpu::by_width(isa, kRowKernelsPortable, kRowKernelsAvx2, kRowKernelsAvx512);
#else
  (void)isa;
  return kRowKernelsPortable;
#endif
}

}  // namespace quire
