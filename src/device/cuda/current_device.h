// The driver stores, for each thread, the device that the thread's calls go to.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/gpu_stream.h"

namespace quire::cuda {

// Makes the device current for the calling thread. Every call that takes a stream, an event or
// memory of a device must be preceded by this one, since calls may come from any thread. It costs
// nothing when the thread used the same device last. Nothing else in the process may call
// cudaSetDevice().
cudaError_t use_device(int32_t ordinal);
// Does the same for a stream's device. An error stays with the stream.
void use_device_of(GpuStream& stream);

inline cudaStream_t handle_of(const GpuStream& stream) {
  return static_cast<cudaStream_t>(stream.handle());
}

}  // namespace quire::cuda
