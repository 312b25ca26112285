// A GpuStream is a queue of work on a GPU. It also stores the GPU's properties by which kernels
// choose how to divide their work.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "device/stream.h"

namespace quire {

struct GpuInfo {
  int32_t ordinal = 0;  // its number among the devices that the driver shows to this process
  int32_t num_sms = 1;
  int32_t compute_capability = 80;            // 10 * major + minor
  int64_t shared_bytes_per_block = 99 << 10;  // the most that one block may request
  int64_t shared_bytes_per_sm = 100 << 10;    // the sum for all blocks that run on the SM at once
};

// LibraryState is what a library keeps per stream (handles, chosen algorithms). The stream owns it;
// only the backend that stored it uses it.
class LibraryState {
 public:
  virtual ~LibraryState() = default;
};

// RangeHooks receives the begin and end of each range (gpu_range.h) and passes them to a profiler's
// library.
class RangeHooks {
 public:
  virtual ~RangeHooks() = default;
  // `index` is the number of the layer, or the largest size_t where there is none.
  virtual void begin(const char* name, size_t index) = 0;
  virtual void end() = 0;
};

// Work of an emulated stream that has not run yet.
using EmulatedWork = std::vector<std::function<void()>>;

// Kernel launches return before the work is done. An error of any of them stays with the stream
// until take_error(); after an error, results are meaningless. One thread at a time uses a stream.
class GpuStream final : public Stream {
 public:
  // `handle` is the driver's stream, borrowed.
  GpuStream(void* handle, const GpuInfo& info, const OpTable& ops)
      : handle_(handle), info_(info), ops_(&ops) {}
  // Makes an emulated stream: kernels append themselves to *emulated, which is borrowed.
  GpuStream(EmulatedWork* emulated, const GpuInfo& info, const OpTable& ops)
      : emulated_(emulated), info_(info), ops_(&ops) {}

  DeviceKind device() const override { return DeviceKind::kCuda; }
  const OpTable* ops() const override { return ops_; }
  void* handle() const { return handle_; }
  EmulatedWork* emulated() const { return emulated_; }
  void set_emulated(EmulatedWork* emulated) { emulated_ = emulated; }
  const GpuInfo& info() const { return info_; }

  // When true, the bits of a row do not depend on the batch (law L4), at some cost in speed.
  bool deterministic() const { return deterministic_; }
  void set_deterministic(bool on) { deterministic_ = on; }

  // The folder where measured algorithms of libraries are stored between starts. Empty: they are not
  // stored.
  const std::string& algorithm_cache_dir() const { return algorithm_cache_dir_; }
  void set_algorithm_cache_dir(std::string dir) { algorithm_cache_dir_ = std::move(dir); }

  // When true, a kernel may start while the kernel before it finishes, and runs up to the point
  // where it needs that kernel's results.
  bool programmatic_launch() const { return programmatic_launch_; }
  void set_programmatic_launch(bool on) { programmatic_launch_ = on; }

  // When true, kernels with warpgroup matrix products run, which need compute capability 9.0. They
  // round as the products of a single warp do, so either kind may compute a row.
  bool warpgroup_products() const { return warpgroup_products_; }
  void set_warpgroup_products(bool on) { warpgroup_products_ = on; }

  // The hooks are borrowed. Null: ranges are not reported.
  RangeHooks* range_hooks() const { return range_hooks_; }
  void set_range_hooks(RangeHooks* hooks) { range_hooks_ = hooks; }

  // Keeps the first error, except that the loss of the device (kUnavailable) replaces any other
  // error: a call that failed only as a consequence of the loss may have been recorded before the
  // call that reported the loss.
  void fail(Status error) {
    const bool outranks =
        error.code() == StatusCode::kUnavailable && error_.code() != StatusCode::kUnavailable;
    if (error_.ok() || outranks) error_ = std::move(error);
  }
  Status take_error() { return std::exchange(error_, {}); }

  std::unique_ptr<LibraryState>& library_state() { return library_state_; }
  // The TMA descriptors of launches on this stream (kernels/cuda/ring/tensor_maps.h). Null until a
  // launch needs one.
  std::unique_ptr<LibraryState>& tensor_maps() { return tensor_maps_; }

 private:
  void* handle_ = nullptr;
  EmulatedWork* emulated_ = nullptr;
  GpuInfo info_;
  const OpTable* ops_;
  bool deterministic_ = false;
  bool programmatic_launch_ = false;
  bool warpgroup_products_ = false;
  RangeHooks* range_hooks_ = nullptr;
  std::string algorithm_cache_dir_;
  Status error_;
  std::unique_ptr<LibraryState> library_state_;
  std::unique_ptr<LibraryState> tensor_maps_;
};

}  // namespace quire
