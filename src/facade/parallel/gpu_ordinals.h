// Which GPUs the engines, stages and ranks of a model run on.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

struct GpuShape {
  int32_t num_engines = 1;
  int32_t num_stages = 1;  // of each engine
  int32_t num_ranks = 1;   // of each stage
  int32_t num_gpus() const { return num_engines * num_stages * num_ranks; }
};

// Rank by rank of the first stage, then of the next; then those of the next engine. `num_there`: how
// many GPUs there are. `devices` is what --devices says: their numbers with commas between them, of
// which several may be the same, or empty: the first ones. kInvalidArgument: not as many GPUs as the
// shape has, or none of that number. kUnavailable: there are fewer GPUs than it has.
Result<std::vector<int32_t>> gpu_ordinals(std::string_view devices, const GpuShape& shape,
                                          int32_t num_there);

}  // namespace quire
