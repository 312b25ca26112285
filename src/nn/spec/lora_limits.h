// LoraLimits bound every batch that has adapters.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace quire {

// The rows that a replaced head multiplies at once.
inline constexpr int64_t kWholeHeadRows = 32;

// The bounds of every batch of a model with adapters.
struct LoraLimits {
  int64_t max_ranks = 0;  // sum over the parts of one matrix; 0: no adapters
  DType dtype = DType::kBF16;
  int64_t max_inputs = 0;  // of one matrix
  int64_t max_outputs = 0;
  int64_t max_rank = 0;              // of one part
  int64_t num_experts = 0;           // most slots of a layer; 0: no layer has experts
  int64_t num_experts_chosen = 0;    // by a token
  int64_t head_workspace_bytes = 0;  // of a replaced head's product
};

}  // namespace quire
