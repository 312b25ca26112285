// launch() starts a kernel on a stream.
//
//   launch<scale_kernel>(stream, {.num_blocks = n, .num_threads = 256}, x, factor);
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "device/gpu_stream.h"
#include "kernels/cuda/device_code.h"

#if defined(__CUDACC__)
#include "device/cuda/error.h"
#endif

namespace quire::cuda {

struct LaunchShape {
  int64_t num_blocks = 1;
  int num_threads = 128;  // per block
  int64_t shared_bytes = 0;
};

// Returns the stream as a GPU's; any other stream is a bug of the caller.
inline GpuStream& gpu(Stream& stream) {
  QUIRE_CHECK(stream.device() == DeviceKind::kCuda, "expected a GPU's stream");
  return static_cast<GpuStream&>(stream);
}
inline const GpuStream& gpu(const Stream& stream) {
  QUIRE_CHECK(stream.device() == DeviceKind::kCuda, "expected a GPU's stream");
  return static_cast<const GpuStream&>(stream);
}

// Returns how many blocks cover `work` items, `per_block` each, where each block may loop.
inline int64_t blocks_for(const GpuStream& stream, int64_t work, int64_t per_block,
                          int64_t blocks_per_sm) {
  const int64_t wanted = (work + per_block - 1) / per_block;
  return std::clamp<int64_t>(wanted, 1, stream.info().num_sms * blocks_per_sm);
}

#if defined(__CUDACC__)

namespace internal {
inline void report(GpuStream& stream, cudaError_t error) {
  if (error != cudaSuccess) stream.fail(to_status(error, "starting a kernel"));
}
// Above 48 KiB of shared memory a kernel must ask first; once per kernel and process is enough.
template <auto kKernel>
cudaError_t allow_shared_memory(int64_t bytes) {
  static int64_t allowed = 48 << 10;
  if (bytes <= allowed) return cudaSuccess;
  const cudaError_t error = cudaFuncSetAttribute(
      kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error == cudaSuccess) allowed = bytes;
  return error;
}
}  // namespace internal

template <auto kKernel, typename... Args>
void launch(Stream& stream, const LaunchShape& shape, const Args&... args) {
  GpuStream& queue = gpu(stream);
  if (shape.num_blocks == 0) return;
  internal::report(queue, internal::allow_shared_memory<kKernel>(shape.shared_bytes));
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.num_blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.num_threads));
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = static_cast<cudaStream_t>(queue.handle());
  // Every kernel waits for the one before it (ptx::wait_for_previous_kernel) before it reads what
  // that may have written. Only the code made for sm_90a does: elsewhere the wait compiles to
  // nothing.
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  if (queue.programmatic_launch() && queue.info().compute_capability == 90) {
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  internal::report(queue, cudaLaunchKernelEx(&config, kKernel, args...));
}

#else

template <auto kKernel, typename... Args>
void launch(Stream& stream, const LaunchShape& shape, const Args&... args) {
  EmulatedWork* work = gpu(stream).emulated();
  QUIRE_CHECK(work != nullptr, "emulated kernels on a real stream");
  work->push_back([=] {
    for (int64_t block = 0; block < shape.num_blocks; ++block) {
      emulation::Block::run({.block_index = static_cast<int>(block),
                             .num_blocks = static_cast<int>(shape.num_blocks),
                             .num_threads = shape.num_threads,
                             .shared_bytes = static_cast<int>(shape.shared_bytes)},
                            1, [&] { kKernel(args...); });
    }
  });
}

#endif

}  // namespace quire::cuda
