#include "device/cuda/error.h"

#include <gtest/gtest.h>

namespace quire::cuda {
namespace {

// A server on the device stops on kUnavailable alone (engine/engine.h).
TEST(CudaError, TellsALostDeviceFromWhatPasses) {
  EXPECT_TRUE(to_status(cudaSuccess, "nothing").ok());
  for (const cudaError_t lost :
       {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorMisalignedAddress,
        cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable, cudaErrorAssert}) {
    const Status status = to_status(lost, "starting a kernel");
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << cudaGetErrorName(lost);
    EXPECT_NE(status.message().find("starting a kernel: the device is lost"), std::string::npos);
  }
  EXPECT_EQ(to_status(cudaErrorMemoryAllocation, "").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(to_status(cudaErrorInvalidConfiguration, "").code(), StatusCode::kInternal);
  EXPECT_EQ(to_status(cudaErrorInvalidValue, "").code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace quire::cuda
