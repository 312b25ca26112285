// Functions that open a CUDA GPU without needing a CUDA header. In a build without CUDA they return
// an error that says so (no_cuda/).
#pragma once

#include <cstdint>
#include <memory>

#include "device/device.h"

namespace quire {

// Returns whether this build holds CUDA kernels at all.
bool built_with_cuda();

// Returns how many GPUs the driver shows to this process. kUnavailable: there is no driver, or no
// GPU.
Result<int32_t> count_cuda_devices();

struct CudaDeviceOptions {
  int32_t ordinal = 0;
};

// Opens the GPU. kUnavailable: there is no driver, no such GPU, or the kernels were not built for
// this GPU (below compute capability 8.0). The message says which.
Result<std::unique_ptr<Device>> open_cuda_device(const CudaDeviceOptions& options,
                                                 const OpTable& ops);

}  // namespace quire
