// The driver remembers for each thread which device its calls are for.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/gpu_stream.h"

namespace quire::cuda {

// Makes the device the calling thread's. Every call that takes a stream, an event or memory of a
// device is preceded by this, since any thread may make it. Costs nothing when the thread used the
// device last. Nothing else in the process may call cudaSetDevice().
cudaError_t use_device(int32_t ordinal);
// The same for a stream's device; an error stays with the stream.
void use_device_of(GpuStream& stream);

inline cudaStream_t handle_of(const GpuStream& stream) {
  return static_cast<cudaStream_t>(stream.handle());
}

}  // namespace quire::cuda
