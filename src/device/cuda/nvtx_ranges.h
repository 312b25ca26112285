// NVTX tells these ranges to a profiler; nothing happens where none is attached.
#pragma once

#include "device/gpu_stream.h"

namespace quire::cuda {

class NvtxRanges final : public RangeHooks {
 public:
  void begin(const char* name, size_t index) override;
  void end() override;
};

}  // namespace quire::cuda
