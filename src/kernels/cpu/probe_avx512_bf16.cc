// clang-format off: the SIMD header comes first, the kernels are written over it
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/kernel_tables.h"
namespace quire { namespace {
constexpr int kProbeRegisters = 12;  // as many accumulators as the registers hold and the latency needs
} }  // namespace
#include "kernels/cpu/probe.inc"
// clang-format on

namespace quire::cpu {

const ProbeKernels kProbeAvx512Bf16 = {.multiply_add = &fma_probe, .read = &read_probe};

}  // namespace quire::cpu
