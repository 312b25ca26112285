#include "kernels/cpu/sampling/row_kernels.h"

#include "kernels/cpu/sampling/row_tables.h"

namespace quire {

#ifdef QUIRE_X86_KERNELS
const RowKernels& row_kernels(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Core:
    case Isa::kAvx512Vnni:
    case Isa::kAvx512:
    case Isa::kAmx:
      return kRowKernelsAvx512;
    case Isa::kAvx2Core:
    case Isa::kAvx2:
      return kRowKernelsAvx2;
    default:
      return kRowKernelsPortable;
  }
}
#else
const RowKernels& row_kernels(Isa) { return kRowKernelsPortable; }
#endif

}  // namespace quire
