#include "device/cuda_device.h"

namespace quire {

bool built_with_cuda() { return false; }

Result<std::unique_ptr<Device>> open_cuda_device(const CudaDeviceOptions& /*options*/,
                                                 const OpTable& /*ops*/) {
  return Status(StatusCode::kUnavailable, "CUDA: this build has no CUDA kernels (QUIRE_CUDA=OFF)");
}

}  // namespace quire
