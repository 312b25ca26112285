// The probe kernels for this instruction set.
#include "kernels/cpu/probe/probe-inl.h"

namespace quire {
namespace {

struct Avx512VnniProbe {
  static constexpr int kFloatSums = 12;
  static constexpr int kInt8Sums = 12;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const ProbeKernels kProbeAvx512Vnni = kProbeOver<Avx512VnniProbe>;

}  // namespace quire::cpu
