// The probe kernels for this instruction set.
#include "kernels/cpu/probe/probe-inl.h"

namespace quire {
namespace {

struct PortableProbe {
  static constexpr int kFloatSums = 3;
  static constexpr int kInt8Sums = 1;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const ProbeKernels kProbePortable = kProbeOver<PortableProbe>;

}  // namespace quire::cpu
