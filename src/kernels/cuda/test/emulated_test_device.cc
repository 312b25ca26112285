#include "device/emulated_device.h"
#include "kernels/cuda/emulation/ops.h"
#include "kernels/cuda/test/test_device.h"

namespace quire::gpu_test {

Result<std::unique_ptr<Device>> open_test_device(const EmulatedGpu& emulated) {
  return make_emulated_device({.num_sms = emulated.num_sms,
                               .compute_capability = emulated.compute_capability,
                               .shared_bytes_per_block = emulated.shared_bytes_per_block,
                               .num_failing_captures = emulated.num_failing_captures,
                               .copies = emulated.copies},
                              emulated_cuda_ops());
}

}  // namespace quire::gpu_test
