// launch() starts a kernel on a stream.
//
//   launch<scale_kernel>(stream, {.num_blocks = n, .num_threads = 256}, x, factor);
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "device/gpu_stream.h"
#include "kernels/cuda/device_code.h"

#if defined(__CUDACC__)
#include <array>
#include <atomic>
#include <mutex>

#include "device/cuda/current_device.h"
#include "device/cuda/error.h"
#endif

namespace quire::cuda {

struct LaunchShape {
  int64_t num_blocks = 1;
  int num_threads = 128;  // per block
  int64_t shared_bytes = 0;
};

// Returns the stream as a GpuStream. Passing any other stream is a bug.
inline GpuStream& gpu(Stream& stream) {
  QUIRE_CHECK(stream.device() == DeviceKind::kCuda, "expected a GPU's stream");
  return static_cast<GpuStream&>(stream);
}
inline const GpuStream& gpu(const Stream& stream) {
  QUIRE_CHECK(stream.device() == DeviceKind::kCuda, "expected a GPU's stream");
  return static_cast<const GpuStream&>(stream);
}

// Returns how many blocks cover `work` items at `per_block` each; each block may loop.
inline int64_t blocks_for(const GpuStream& stream, int64_t work, int64_t per_block,
                          int64_t blocks_per_sm) {
  const int64_t wanted = (work + per_block - 1) / per_block;
  return std::clamp<int64_t>(wanted, 1, stream.info().num_sms * blocks_per_sm);
}

// Returns how many blocks of a kernel an SM holds at once: as many as fit its shared memory, and at
// most `most`, for which the kernel's QUIRE_BLOCK_BOUNDS leaves registers. A kernel whose blocks
// loop over items starts no more than these, since others would only wait for the first to end.
inline int64_t resident_blocks(const GpuInfo& info, int64_t shared_bytes, int64_t most) {
  constexpr int64_t kReservedBytes = 1 << 10;  // the driver's, for each block
  return std::clamp<int64_t>(info.shared_bytes_per_sm / (shared_bytes + kReservedBytes), 1, most);
}

namespace internal {
// Returns the kernel's name with its template arguments.
template <auto kKernel>
std::string_view kernel_name() {
  std::string_view name = __PRETTY_FUNCTION__;
  constexpr std::string_view kBefore = "kKernel = ";
  const size_t begin = name.find(kBefore);
  if (begin != std::string_view::npos) name.remove_prefix(begin + kBefore.size());
  return name.substr(0, name.find_first_of(";]"));
}

// Returns whether the GPU has the shared memory that a block needs; if not, sets the stream's
// error.
template <auto kKernel>
bool fits(GpuStream& stream, const LaunchShape& shape) {
  const int64_t most = stream.info().shared_bytes_per_block;
  if (shape.shared_bytes <= most) return true;
  stream.fail({StatusCode::kUnimplemented,
               fmt::format("{}: expected a GPU with {} bytes of shared memory per block, got {}",
                           kernel_name<kKernel>(), shape.shared_bytes, most)});
  return false;
}
}  // namespace internal

#if defined(__CUDACC__)

namespace internal {
inline void report(GpuStream& stream, cudaError_t error) {
  if (error != cudaSuccess) stream.fail(to_status(error, "starting a kernel"));
}
// A kernel that uses more than 48 KiB of shared memory must request it, once per kernel and device.
template <auto kKernel>
cudaError_t allow_shared_memory(int32_t ordinal, int64_t bytes) {
  constexpr int64_t kAllowedByItself = 48 << 10;
  constexpr size_t kMostDevices = 64;
  static std::array<std::atomic<int64_t>, kMostDevices> allowed{};
  std::atomic<int64_t>& here = allowed[static_cast<size_t>(ordinal) % kMostDevices];
  if (bytes <= std::max(here.load(), kAllowedByItself)) return cudaSuccess;
  // Otherwise another thread that needs less could set the attribute last.
  static std::mutex setting;
  const std::lock_guard lock(setting);
  if (bytes <= here.load()) return cudaSuccess;
  const cudaError_t error = cudaFuncSetAttribute(
      kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error == cudaSuccess) here = bytes;
  return error;
}
}  // namespace internal

template <auto kKernel, typename... Args>
void launch(Stream& stream, const LaunchShape& shape, const Args&... args) {
  GpuStream& queue = gpu(stream);
  if (shape.num_blocks == 0 || !internal::fits<kKernel>(queue, shape)) return;
  const int32_t ordinal = queue.info().ordinal;
  internal::report(queue, use_device(ordinal));
  internal::report(queue, internal::allow_shared_memory<kKernel>(ordinal, shape.shared_bytes));
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.num_blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.num_threads));
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = static_cast<cudaStream_t>(queue.handle());
  // Every kernel waits for the one before it (ptx::wait_for_previous_kernel) before it reads what
  // that one may have written. Only code compiled for sm_90a does so; elsewhere the wait compiles
  // to nothing.
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
  if (shape.num_blocks > 0 && !internal::fits<kKernel>(gpu(stream), shape)) return;
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
