// A GpuStream is a queue of work on a GPU, and holds what kernels must know of that GPU to cut
// their work.
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
  int32_t ordinal = 0;  // of the devices that the driver shows to this process
  int32_t num_sms = 1;
  int32_t compute_capability = 80;            // 10 * major + minor
  int64_t shared_bytes_per_block = 99 << 10;  // the most that one block may ask for
  int64_t shared_bytes_per_sm = 100 << 10;    // of all blocks that it holds at once
};

// LibraryState is what a library keeps per stream (handles, chosen algorithms). The stream owns it,
// and the backend that put it there uses it.
class LibraryState {
 public:
  virtual ~LibraryState() = default;
};

// RangeHooks are told of ranges (gpu_range.h): a profiler's library.
class RangeHooks {
 public:
  virtual ~RangeHooks() = default;
  // `index` is that of the layer; the largest size_t where there is none.
  virtual void begin(const char* name, size_t index) = 0;
  virtual void end() = 0;
};

// This is the work of an emulated stream that waits to be run.
using EmulatedWork = std::vector<std::function<void()>>;

// Kernels return before their work is done. An error of any of them stays with the stream until it
// is taken; after one, results mean nothing. One thread at a time uses a stream.
class GpuStream final : public Stream {
 public:
  // `handle` is the driver's stream, borrowed.
  GpuStream(void* handle, const GpuInfo& info, const OpTable& ops)
      : handle_(handle), info_(info), ops_(&ops) {}
  // The stream is emulated: kernels add themselves to *emulated, which is borrowed.
  GpuStream(EmulatedWork* emulated, const GpuInfo& info, const OpTable& ops)
      : emulated_(emulated), info_(info), ops_(&ops) {}

  DeviceKind device() const override { return DeviceKind::kCuda; }
  const OpTable* ops() const override { return ops_; }
  void* handle() const { return handle_; }
  EmulatedWork* emulated() const { return emulated_; }
  void set_emulated(EmulatedWork* emulated) { emulated_ = emulated; }
  const GpuInfo& info() const { return info_; }

  // When set, the bits of a row do not depend on the batch (law L4), at some cost in speed.
  bool deterministic() const { return deterministic_; }
  void set_deterministic(bool on) { deterministic_ = on; }

  // In this folder measured algorithms of libraries are kept between starts; empty: nowhere.
  const std::string& algorithm_cache_dir() const { return algorithm_cache_dir_; }
  void set_algorithm_cache_dir(std::string dir) { algorithm_cache_dir_ = std::move(dir); }

  // When set, a kernel may begin while the one before it ends, up to where it waits for its
  // results.
  bool programmatic_launch() const { return programmatic_launch_; }
  void set_programmatic_launch(bool on) { programmatic_launch_ = on; }

  // When set, kernels made of warpgroup products run, which only compute capability 9.0 has. These
  // round as the products of a warp do, so that either kind may compute a row.
  bool warpgroup_products() const { return warpgroup_products_; }
  void set_warpgroup_products(bool on) { warpgroup_products_ = on; }

  // The hooks are borrowed; null: nobody is told.
  RangeHooks* range_hooks() const { return range_hooks_; }
  void set_range_hooks(RangeHooks* hooks) { range_hooks_ = hooks; }

  // The first error stays, except that the loss of the device (kUnavailable) outranks others: a
  // call that only noticed the loss may have come before the one that was told of it.
  void fail(Status error) {
    const bool outranks =
        error.code() == StatusCode::kUnavailable && error_.code() != StatusCode::kUnavailable;
    if (error_.ok() || outranks) error_ = std::move(error);
  }
  Status take_error() { return std::exchange(error_, {}); }

  std::unique_ptr<LibraryState>& library_state() { return library_state_; }
  // Those of its launches (kernels/cuda/ring/tensor_maps.h); null before the first that wants one.
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
