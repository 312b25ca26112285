#include "device/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "device/cuda/capture_mutex.h"
#include "device/cuda/current_device.h"
#include "device/cuda/error.h"
#include "device/cuda/nvtx_ranges.h"

namespace quire {
namespace {

using cuda::handle_of;
using cuda::to_status;
using cuda::use_device;
using cuda::use_device_of;

void release_device(void* base, void* /*context*/) {
  const std::lock_guard lock(cuda::capture_mutex());
  (void)cudaFree(base);
}
void release_pinned(void* base, void* /*context*/) {
  const std::lock_guard lock(cuda::capture_mutex());
  (void)cudaFreeHost(base);
}

Status unavailable(std::string message) {
  return {StatusCode::kUnavailable, "CUDA: " + std::move(message)};
}

class CudaGraph final : public Graph {
 public:
  CudaGraph(cudaGraphExec_t graph, GpuStream& stream) : graph_(graph), stream_(stream) {}
  ~CudaGraph() override { (void)cudaGraphExecDestroy(graph_); }
  void launch() override {
    use_device_of(stream_);
    stream_.fail(to_status(cudaGraphLaunch(graph_, handle_of(stream_)), "starting a graph"));
  }

 private:
  cudaGraphExec_t graph_;
  GpuStream& stream_;
};

class CudaEvent final : public Event {
 public:
  CudaEvent(cudaEvent_t event, GpuStream& stream) : event_(event), stream_(stream) {}
  ~CudaEvent() override { (void)cudaEventDestroy(event_); }
  void record() override {
    use_device_of(stream_);
    stream_.fail(to_status(cudaEventRecord(event_, handle_of(stream_)), "recording an event"));
  }
  bool is_reached() override { return cudaEventQuery(event_) != cudaErrorNotReady; }
  Status wait() override {
    stream_.fail(to_status(cudaEventSynchronize(event_), "waiting for a step"));
    return stream_.take_error();
  }

 private:
  cudaEvent_t event_;
  GpuStream& stream_;
};

class CudaCopyQueue final : public CopyQueue {
 public:
  CudaCopyQueue(cudaStream_t stream, int32_t ordinal) : stream_(stream), ordinal_(ordinal) {}
  ~CudaCopyQueue() override {
    const std::lock_guard lock(cuda::capture_mutex());
    (void)use_device(ordinal_);
    (void)cudaStreamDestroy(stream_);
  }
  // Copies in pieces, because no thread can capture a graph while a piece is copied.
  Status copy_to_device(void* to, const void* from, int64_t num_bytes) override {
    constexpr int64_t kPieceBytes = int64_t{16} << 20;
    for (int64_t done = 0; done < num_bytes; done += kPieceBytes) {
      const std::lock_guard lock(cuda::capture_mutex());
      QUIRE_RETURN_IF_ERROR(to_status(use_device(ordinal_), "choosing the device"));
      const auto count = static_cast<size_t>(std::min(kPieceBytes, num_bytes - done));
      QUIRE_RETURN_IF_ERROR(to_status(cudaMemcpyAsync(static_cast<std::byte*>(to) + done,
                                                      static_cast<const std::byte*>(from) + done,
                                                      count, cudaMemcpyHostToDevice, stream_),
                                      "copying"));
      QUIRE_RETURN_IF_ERROR(to_status(cudaStreamSynchronize(stream_), "waiting for a copy"));
    }
    return {};
  }

 private:
  cudaStream_t stream_;
  int32_t ordinal_;
};

class CudaCopyStream final : public CopyStream {
 public:
  // `device` is the stream beside which the copies run; it records their errors. Owns `stream`.
  CudaCopyStream(cudaStream_t stream, GpuStream& device) : stream_(stream), device_(device) {}
  ~CudaCopyStream() override {
    const std::lock_guard lock(cuda::capture_mutex());
    (void)use_device(device_.info().ordinal);
    (void)cudaStreamSynchronize(stream_);
    if (here_ != nullptr) (void)cudaEventDestroy(here_);
    if (there_ != nullptr) (void)cudaEventDestroy(there_);
    (void)cudaStreamDestroy(stream_);
  }
  // Called once, before any other method.
  Status make_events() {
    for (cudaEvent_t* event : {&here_, &there_}) {
      QUIRE_RETURN_IF_ERROR(
          to_status(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event"));
    }
    return {};
  }
  void copy_to_device(void* to, const void* from, int64_t num_bytes) override {
    copy(to, from, num_bytes, cudaMemcpyHostToDevice);
  }
  void copy_to_host(void* to, const void* from, int64_t num_bytes) override {
    copy(to, from, num_bytes, cudaMemcpyDeviceToHost);
  }
  void wait_for_device() override { order(there_, handle_of(device_), stream_); }
  void hold_device() override { order(here_, stream_, handle_of(device_)); }

 private:
  void copy(void* to, const void* from, int64_t num_bytes, cudaMemcpyKind kind) {
    if (num_bytes == 0) return;
    use_device_of(device_);
    device_.fail(to_status(cudaMemcpyAsync(to, from, static_cast<size_t>(num_bytes), kind, stream_),
                           "copying beside the device's work"));
  }
  // An event may be recorded again while a stream still waits for its earlier recording.
  void order(cudaEvent_t event, cudaStream_t first, cudaStream_t then) {
    use_device_of(device_);
    device_.fail(to_status(cudaEventRecord(event, first), "recording the end of copies"));
    device_.fail(to_status(cudaStreamWaitEvent(then, event, 0), "waiting for copies"));
  }

  cudaStream_t stream_;
  cudaEvent_t here_ = nullptr;   // recorded on this stream
  cudaEvent_t there_ = nullptr;  // recorded on the device's stream
  GpuStream& device_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(std::string name, cudaStream_t handle, const GpuInfo& info, const OpTable& ops)
      : name_(std::move(name)), handle_(handle), stream_(handle, info, ops) {
    stream_.set_range_hooks(&ranges_);
  }
  ~CudaDevice() override {
    const std::lock_guard lock(cuda::capture_mutex());
    (void)use_device(stream_.info().ordinal);
    stream_.library_state().reset();
    (void)cudaStreamDestroy(handle_);
  }

  DeviceInfo info() const override {
    size_t free = 0;
    size_t total = 0;
    const bool known = use_device(stream_.info().ordinal) == cudaSuccess &&
                       cudaMemGetInfo(&free, &total) == cudaSuccess;
    if (!known) free = total = 0;
    return {.name = name_,
            .total_memory_bytes = static_cast<int64_t>(total),
            .free_memory_bytes = static_cast<int64_t>(free),
            .gpu = stream_.info()};
  }
  GpuStream& stream() override { return stream_; }

  Result<Arena> allocate(int64_t num_bytes) override {
    if (num_bytes == 0) return Arena();
    const std::lock_guard lock(cuda::capture_mutex());
    QUIRE_RETURN_IF_ERROR(chosen());
    void* base = nullptr;
    const auto size = static_cast<size_t>(Arena::padded(num_bytes));
    QUIRE_RETURN_IF_ERROR(
        to_status(cudaMalloc(&base, size), fmt::format("allocating {} bytes", size)));
    Arena arena = Arena::adopt(base, static_cast<int64_t>(size), release_device);
    QUIRE_RETURN_IF_ERROR(to_status(cudaMemsetAsync(base, 0, size, handle_), "clearing memory"));
    return arena;
  }
  Result<Arena> allocate_pinned(int64_t num_bytes) override {
    if (num_bytes == 0) return Arena();
    const std::lock_guard lock(cuda::capture_mutex());
    QUIRE_RETURN_IF_ERROR(chosen());
    void* base = nullptr;
    const auto size = static_cast<size_t>(Arena::padded(num_bytes));
    QUIRE_RETURN_IF_ERROR(to_status(cudaHostAlloc(&base, size, cudaHostAllocDefault),
                                    fmt::format("pinning {} bytes", size)));
    return Arena::adopt(base, static_cast<int64_t>(size), release_pinned);
  }

  void copy_to_device(void* to, const void* from, int64_t num_bytes) override {
    copy(to, from, num_bytes, cudaMemcpyHostToDevice);
  }
  void copy_to_host(void* to, const void* from, int64_t num_bytes) override {
    copy(to, from, num_bytes, cudaMemcpyDeviceToHost);
  }
  void copy_on_device(void* to, const void* from, int64_t num_bytes) override {
    copy(to, from, num_bytes, cudaMemcpyDeviceToDevice);
  }
  void set_zero(void* to, int64_t num_bytes) override {
    use_device_of(stream_);
    stream_.fail(to_status(cudaMemsetAsync(to, 0, static_cast<size_t>(num_bytes), handle_),
                           "clearing memory"));
  }

  Result<std::unique_ptr<Event>> make_event() override {
    QUIRE_RETURN_IF_ERROR(chosen());
    cudaEvent_t event = nullptr;
    QUIRE_RETURN_IF_ERROR(
        to_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event"));
    return std::unique_ptr<Event>(std::make_unique<CudaEvent>(event, stream_));
  }

  Result<std::unique_ptr<CopyQueue>> make_copy_queue() override {
    const std::lock_guard lock(cuda::capture_mutex());
    QUIRE_RETURN_IF_ERROR(chosen());
    cudaStream_t stream = nullptr;
    QUIRE_RETURN_IF_ERROR(
        to_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream"));
    return std::unique_ptr<CopyQueue>(
        std::make_unique<CudaCopyQueue>(stream, stream_.info().ordinal));
  }

  Result<std::unique_ptr<CopyStream>> make_copy_stream() override {
    const std::lock_guard lock(cuda::capture_mutex());
    QUIRE_RETURN_IF_ERROR(chosen());
    cudaStream_t stream = nullptr;
    QUIRE_RETURN_IF_ERROR(
        to_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream"));
    auto made = std::make_unique<CudaCopyStream>(stream, stream_);
    QUIRE_RETURN_IF_ERROR(made->make_events());
    return std::unique_ptr<CopyStream>(std::move(made));
  }

  Status synchronize() override {
    use_device_of(stream_);
    stream_.fail(to_status(cudaStreamSynchronize(handle_), "waiting for the device"));
    return stream_.take_error();
  }

  Status reach(Device& other) override {
    const int32_t here = stream_.info().ordinal;
    const int32_t there = other.info().gpu.ordinal;
    if (here == there) return {};
    const std::lock_guard lock(cuda::capture_mutex());
    QUIRE_RETURN_IF_ERROR(chosen());
    int can = 0;
    QUIRE_RETURN_IF_ERROR(to_status(cudaDeviceCanAccessPeer(&can, here, there),
                                    "asking whether one GPU reaches another"));
    if (can == 0) {
      return unavailable(
          fmt::format("expected GPUs that reach each other's memory, got {} and {}, which do not",
                      here, there));
    }
    const cudaError_t enabled = cudaDeviceEnablePeerAccess(there, 0);
    if (enabled == cudaErrorPeerAccessAlreadyEnabled) {
      (void)cudaGetLastError();
      return {};
    }
    return to_status(enabled, "opening the memory of one GPU to another");
  }

  Status begin_capture() override {
    QUIRE_RETURN_IF_ERROR(chosen());
    capturing_ = std::unique_lock(cuda::capture_mutex());
    Status begun = to_status(cudaStreamBeginCapture(handle_, cudaStreamCaptureModeThreadLocal),
                             "beginning a graph");
    if (!begun.ok()) capturing_.unlock();
    return begun;
  }
  Result<std::unique_ptr<Graph>> end_capture() override {
    const std::unique_lock capturing = std::move(capturing_);
    cudaGraph_t graph = nullptr;
    use_device_of(stream_);
    stream_.fail(to_status(cudaStreamEndCapture(handle_, &graph), "ending a graph"));
    Status status = stream_.take_error();
    cudaGraphExec_t executable = nullptr;
    if (status.ok())
      status = to_status(cudaGraphInstantiate(&executable, graph, 0), "making a graph");
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    QUIRE_RETURN_IF_ERROR(std::move(status));
    auto made = std::make_unique<CudaGraph>(executable, stream_);
    // Uploads the graph here, since the first launch would otherwise do so and take that time.
    QUIRE_RETURN_IF_ERROR(
        to_status(cudaGraphUpload(executable, handle_), "bringing a graph to the device"));
    return std::unique_ptr<Graph>(std::move(made));
  }

 private:
  Status chosen() const {
    return to_status(use_device(stream_.info().ordinal), "choosing the device");
  }
  void copy(void* to, const void* from, int64_t num_bytes, cudaMemcpyKind kind) {
    if (num_bytes == 0) return;
    use_device_of(stream_);
    stream_.fail(to_status(cudaMemcpyAsync(to, from, static_cast<size_t>(num_bytes), kind, handle_),
                           "copying"));
  }

  std::string name_;
  cudaStream_t handle_;
  cuda::NvtxRanges ranges_;
  std::unique_lock<std::recursive_mutex> capturing_;  // held during a capture
  GpuStream stream_;
};

}  // namespace

bool built_with_cuda() { return true; }

Result<int32_t> count_cuda_devices() {
  const std::lock_guard lock(cuda::capture_mutex());
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found != cudaSuccess)
    return unavailable(fmt::format("no usable GPU: {}", cudaGetErrorString(found)));
  return count;
}

Result<std::unique_ptr<Device>> open_cuda_device(const CudaDeviceOptions& options,
                                                 const OpTable& ops) {
  QUIRE_ASSIGN_OR_RETURN(const int32_t count, count_cuda_devices());
  const std::lock_guard lock(cuda::capture_mutex());
  if (options.ordinal < 0 || options.ordinal >= count) {
    return unavailable(
        fmt::format("expected a GPU number in [0, {}), got {}", count, options.ordinal));
  }
  QUIRE_RETURN_IF_ERROR(to_status(use_device(options.ordinal), "opening the device"));
  cudaDeviceProp properties{};
  QUIRE_RETURN_IF_ERROR(to_status(cudaGetDeviceProperties(&properties, options.ordinal),
                                  "asking what the device is"));
  const GpuInfo info{
      .ordinal = options.ordinal,
      .num_sms = properties.multiProcessorCount,
      .compute_capability = properties.major * 10 + properties.minor,
      .shared_bytes_per_block = static_cast<int64_t>(properties.sharedMemPerBlockOptin),
      .shared_bytes_per_sm = static_cast<int64_t>(properties.sharedMemPerMultiprocessor)};
  if (info.compute_capability < 80) {
    return unavailable(fmt::format("{}: expected compute capability 8.0 or higher, got {}.{}",
                                   properties.name, properties.major, properties.minor));
  }
  cudaStream_t stream = nullptr;
  QUIRE_RETURN_IF_ERROR(
      to_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream"));
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(properties.name, stream, info, ops));
}

}  // namespace quire
