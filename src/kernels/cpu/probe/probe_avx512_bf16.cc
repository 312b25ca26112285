// The probe kernels for this instruction set.
#include "kernels/cpu/probe/probe-inl.h"

namespace quire {
namespace {

struct Avx512Bf16Probe {
  static constexpr int kFloatSums = 12;
  static constexpr int kInt8Sums = 12;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const ProbeKernels kProbeAvx512Bf16 = kProbeOver<Avx512Bf16Probe>;

}  // namespace quire::cpu
