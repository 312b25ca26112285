// The probe kernels for this instruction set.
#include "kernels/cpu/probe/probe-inl.h"

namespace quire {
namespace {

struct Avx512Probe {
  static constexpr int kFloatSums = 12;
  static constexpr int kInt8Sums = 12;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const ProbeKernels kProbeAvx512 = kProbeOver<Avx512Probe>;

}  // namespace quire::cpu
