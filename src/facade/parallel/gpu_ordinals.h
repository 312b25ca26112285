// Which GPUs the ranks of a model run on.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

// By rank, of `num_gpus` that there are. `devices` is what --devices says: their numbers with commas
// between them, of which several may be the same, or empty: the first num_ranks.
// kInvalidArgument: not as many GPUs as ranks, or none of that number. kUnavailable: there are fewer
// GPUs than ranks.
Result<std::vector<int32_t>> gpu_ordinals(std::string_view devices, int32_t num_ranks,
                                          int32_t num_gpus);

}  // namespace quire
