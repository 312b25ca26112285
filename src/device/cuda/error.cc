#include "device/cuda/error.h"

namespace quire::cuda {

bool is_device_lost(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorExternalDevice:
    case cudaErrorAssert:
    case cudaErrorDevicesUnavailable:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

Status to_status(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  const char* name = cudaGetErrorName(error);
  const char* text = cudaGetErrorString(error);
  if (error == cudaErrorMemoryAllocation) return resource_exhausted("CUDA: {}: {}", what, text);
  if (is_device_lost(error)) {
    return {StatusCode::kUnavailable,
            fmt::format("CUDA: {}: the device is lost: {} ({})", what, text, name)};
  }
  return internal_error("CUDA: {}: {} ({})", what, text, name);
}

}  // namespace quire::cuda
