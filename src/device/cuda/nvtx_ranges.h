// NvtxRanges passes ranges to an attached profiler through NVTX; without a profiler it does
// nothing.
#pragma once

#include "device/gpu_stream.h"

namespace quire::cuda {

class NvtxRanges final : public RangeHooks {
 public:
  void begin(const char* name, size_t index) override;
  void end() override;
};

}  // namespace quire::cuda
