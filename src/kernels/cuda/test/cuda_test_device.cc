#include "device/cuda_device.h"
#include "kernels/cuda/test/test_device.h"
#include "kernels/cuda_ops.h"

namespace quire::gpu_test {

Result<std::unique_ptr<Device>> open_test_device(const EmulatedGpu& /*emulated*/) {
  return open_cuda_device({}, cuda_ops());
}

}  // namespace quire::gpu_test
