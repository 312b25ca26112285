// The probe kernels for this instruction set.
#include "kernels/cpu/probe/probe-inl.h"

namespace quire {
namespace {

struct Avx2Probe {
  static constexpr int kFloatSums = 6;
  static constexpr int kInt8Sums = 4;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const ProbeKernels kProbeAvx2 = kProbeOver<Avx2Probe>;

}  // namespace quire::cpu
