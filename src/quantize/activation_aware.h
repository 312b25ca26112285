// Activation-aware scaling (after "AWQ: Activation-aware Weight Quantization", Lin et al. 2023).
// Rounding weights does the most harm where their inputs are large. So these weights are scaled up
// before rounding, and what produces the inputs is scaled down by the same factor. The model
// computes the same except for rounding.
//
// The inputs of q, k, v and of gate, up are scaled by factors in the norms before them, and those
// of down by factors in the rows of up. For each group of matrices, a search finds the exponent
// with the least expected error, from the mean squares of the inputs.
#pragma once

#include <functional>
#include <vector>

#include "base/result.h"
#include "base/threads/thread_team.h"
#include "models/model_config.h"
#include "quantize/calibration.h"
#include "quantize/quantize_checkpoint.h"
#include "quantize/scheme.h"

namespace quire {

struct ScalingOptions {
  WriteScheme scheme;
  std::function<void(int64_t done, int64_t total)> on_progress = {};  // in layers
};

// kUnimplemented: the family's norms have biases, or the scheme has no groups, which scaling needs.
Result<Rescales> activation_aware_rescales(const TensorSource& source, const ModelConfig& config,
                                           const std::vector<LayerInputMeans>& inputs,
                                           ThreadTeam& team, const ScalingOptions& options);

}  // namespace quire
