#include "device/cuda/current_device.h"

#include "device/cuda/error.h"

namespace quire::cuda {

cudaError_t use_device(int32_t ordinal) {
  thread_local int32_t current = -1;
  if (current == ordinal) return cudaSuccess;
  const cudaError_t error = cudaSetDevice(ordinal);
  if (error == cudaSuccess) current = ordinal;
  return error;
}

void use_device_of(GpuStream& stream) {
  stream.fail(to_status(use_device(stream.info().ordinal), "choosing the device"));
}

}  // namespace quire::cuda
