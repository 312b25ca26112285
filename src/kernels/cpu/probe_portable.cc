// clang-format off: the SIMD header comes first, the kernels are written over it
#include "kernels/cpu/simd_portable.h"
#include "kernels/cpu/kernel_tables.h"
namespace quire { namespace {
constexpr int kProbeRegisters = 4;  // as many accumulators as the registers hold and the latency needs
} }  // namespace
#include "kernels/cpu/probe.inc"
// clang-format on

namespace quire::cpu {

const ProbeKernels kProbePortable = {.multiply_add = &fma_probe, .read = &read_probe};

}  // namespace quire::cpu
