// The probe kernels for this instruction set. The SIMD header comes first: the kernels are
// written over it.
// clang-format off
#include "kernels/cpu/simd/simd_avx2.h"
#include "kernels/cpu/kernel_tables.h"
// clang-format on

namespace quire {
namespace {

// As many accumulators as the registers hold and the latency needs.
constexpr int kProbeRegisters = 6;
constexpr int kInt8ProbeRegisters = 4;

}  // namespace
}  // namespace quire

#include "kernels/cpu/probe/probe.inc"

namespace quire::cpu {

const ProbeKernels kProbeAvx2 = {
    .multiply_add = &fma_probe, .multiply_add_int8 = &int8_probe, .read = &read_probe};

}  // namespace quire::cpu
