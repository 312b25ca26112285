#include "device/emulated_device.h"
#include "kernels/cuda/emulation/ops.h"
#include "kernels/cuda/test/test_device.h"

namespace quire::gpu_test {

Result<std::unique_ptr<Device>> open_test_device(int32_t emulated_capability,
                                                 int32_t num_failing_captures) {
  return make_emulated_device(
      {.compute_capability = emulated_capability, .num_failing_captures = num_failing_captures},
      emulated_cuda_ops());
}

}  // namespace quire::gpu_test
