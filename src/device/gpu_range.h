// A GpuRange gives profilers a name for the work that is queued on a GPU's stream during its
// lifetime (NVTX ranges, which Nsight Systems shows beside the kernels). Ranges nest. It does
// nothing on a CPU's stream.
//
//   const GpuRange range(stream, "attention", layer);
#pragma once

#include <cstddef>

#include "device/gpu_stream.h"

namespace quire {

class GpuRange {
 public:
  // `name` must be a string literal.
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
