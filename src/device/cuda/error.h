// Converts CUDA's error codes to Status.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "base/result.h"

namespace quire::cuda {

// Returns ok for cudaSuccess. kResourceExhausted: out of device memory. kUnavailable: the device is
// lost and every later call will fail; the process cannot serve on it any more.
Status to_status(cudaError_t error, std::string_view what);

// Returns whether the context is broken for good after this error.
bool is_device_lost(cudaError_t error);

}  // namespace quire::cuda
