// A GpuRange names what is queued on a GPU's stream while it lives, for profilers (NVTX ranges,
// which Nsight Systems shows beside the kernels). Ranges nest. On a CPU's stream it does nothing.
//
//   const GpuRange range(stream, "attention", layer);
#pragma once

#include <cstddef>

#include "device/gpu_stream.h"

namespace quire {

class GpuRange {
 public:
  // `name` is a literal.
  GpuRange(Stream& stream, const char* name) : GpuRange(stream, name, kNoIndex) {}
  GpuRange(Stream& stream, const char* name, size_t index) {
    if (stream.device() != DeviceKind::kCuda) return;
    hooks_ = static_cast<GpuStream&>(stream).range_hooks();
    if (hooks_ != nullptr) hooks_->begin(name, index);
  }
  ~GpuRange() {
    if (hooks_ != nullptr) hooks_->end();
  }
  GpuRange(const GpuRange&) = delete;
  GpuRange& operator=(const GpuRange&) = delete;

 private:
  static constexpr size_t kNoIndex = static_cast<size_t>(-1);

  RangeHooks* hooks_ = nullptr;
};

}  // namespace quire
