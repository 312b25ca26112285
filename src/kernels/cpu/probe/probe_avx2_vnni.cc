// The probe kernels for this instruction set.
#include "kernels/cpu/probe/probe-inl.h"

namespace quire {
namespace {

struct Avx2VnniProbe {
  static constexpr int kFloatSums = 6;
  static constexpr int kInt8Sums = 6;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const ProbeKernels kProbeAvx2Vnni = kProbeOver<Avx2VnniProbe>;

}  // namespace quire::cpu
