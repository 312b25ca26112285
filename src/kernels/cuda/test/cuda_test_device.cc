#include "device/cuda_device.h"
#include "kernels/cuda/test/test_device.h"
#include "kernels/cuda_ops.h"

namespace quire::gpu_test {

Result<std::unique_ptr<Device>> open_test_device(int32_t /*emulated_capability*/,
                                                 int32_t /*num_failing_captures*/) {
  return open_cuda_device({}, cuda_ops());
}

}  // namespace quire::gpu_test
