// A queue of work on a GPU, and what kernels must know of that GPU to cut their work.
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
  int32_t num_sms = 1;
  int32_t compute_capability = 80;            // 10 * major + minor
  int64_t shared_bytes_per_block = 99 << 10;  // most that one block may ask for
};

// What a library keeps per stream (handles, chosen algorithms). Owned by the stream, used by the
// backend that put it there.
class LibraryState {
 public:
  virtual ~LibraryState() = default;
};

// Who is told of ranges (gpu_range.h): a profiler's library.
class RangeHooks {
 public:
  virtual ~RangeHooks() = default;
  // `index`: of the layer; the largest size_t where there is none.
  virtual void begin(const char* name, size_t index) = 0;
  virtual void end() = 0;
};

// Work of an emulated stream that waits to be run.
using EmulatedWork = std::vector<std::function<void()>>;

// Kernels return before their work is done. An error of any of them stays with the stream until it
// is taken; after one, results mean nothing. One thread at a time.
class GpuStream final : public Stream {
 public:
  // `handle`: the driver's stream, borrowed.
  GpuStream(void* handle, const GpuInfo& info, const OpTable& ops)
      : handle_(handle), info_(info), ops_(&ops) {}
  // An emulated stream: kernels add themselves to *emulated, borrowed.
  GpuStream(EmulatedWork* emulated, const GpuInfo& info, const OpTable& ops)
      : emulated_(emulated), info_(info), ops_(&ops) {}

  DeviceKind device() const override { return DeviceKind::kCuda; }
  const OpTable* ops() const override { return ops_; }
  void* handle() const { return handle_; }
  EmulatedWork* emulated() const { return emulated_; }
  void set_emulated(EmulatedWork* emulated) { emulated_ = emulated; }
  const GpuInfo& info() const { return info_; }

  // Bits of a row then do not depend on the batch (law L4), at some cost in speed.
  bool deterministic() const { return deterministic_; }
  void set_deterministic(bool on) { deterministic_ = on; }

  // Folder where measured algorithms of libraries are kept between starts; empty: nowhere.
  const std::string& algorithm_cache_dir() const { return algorithm_cache_dir_; }
  void set_algorithm_cache_dir(std::string dir) { algorithm_cache_dir_ = std::move(dir); }

  // A kernel may begin while the one before it ends, up to where it waits for its results.
  bool programmatic_launch() const { return programmatic_launch_; }
  void set_programmatic_launch(bool on) { programmatic_launch_ = on; }

  // Kernels made of warpgroup products, which only compute capability 9.0 has. With
  // deterministic(), only where those round as the other kernels' products do.
  bool warpgroup_products() const { return warpgroup_products_; }
  void set_warpgroup_products(bool on) { warpgroup_products_ = on; }

  // Borrowed; null: nobody.
  RangeHooks* range_hooks() const { return range_hooks_; }
  void set_range_hooks(RangeHooks* hooks) { range_hooks_ = hooks; }

  // The first error stays, but for the loss of the device (kUnavailable), which outranks others: a
  // call that only noticed it may have come before the one that was told.
  void fail(Status error) {
    const bool outranks =
        error.code() == StatusCode::kUnavailable && error_.code() != StatusCode::kUnavailable;
    if (error_.ok() || outranks) error_ = std::move(error);
  }
  Status take_error() { return std::exchange(error_, {}); }

  std::unique_ptr<LibraryState>& library_state() { return library_state_; }

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
};

}  // namespace quire
