#include "device/cuda_device.h"

namespace quire {

namespace {

Status no_kernels() {
  return {StatusCode::kUnavailable, "CUDA: this build has no CUDA kernels (QUIRE_CUDA=OFF)"};
}

}  // namespace

bool built_with_cuda() { return false; }

Result<int32_t> count_cuda_devices() { return no_kernels(); }

Result<std::unique_ptr<Device>> open_cuda_device(const CudaDeviceOptions& /*options*/,
                                                 const OpTable& /*ops*/) {
  return no_kernels();
}

}  // namespace quire
