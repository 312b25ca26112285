// Assigns GPUs to the engines, stages and ranks of a model.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

struct GpuShape {
  int32_t num_engines = 1;
  int32_t num_stages = 1;  // per engine
  int32_t num_ranks = 1;   // per stage
  int32_t num_gpus() const { return num_engines * num_stages * num_ranks; }
};

// Returns the GPU of each rank, first by engine, then by stage, then by rank. `num_there` is the
// number of GPUs in the machine. `devices` is the value of --devices: numbers with commas between
// them, which may repeat, or empty for the first GPUs. kInvalidArgument: the numbers are not as
// many as the shape's GPUs, or one of them does not exist. kUnavailable: the machine has fewer GPUs
// than the shape.
Result<std::vector<int32_t>> gpu_ordinals(std::string_view devices, const GpuShape& shape,
                                          int32_t num_there);

}  // namespace quire
