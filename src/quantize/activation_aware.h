// This is activation-aware scaling (after "AWQ: Activation-aware Weight Quantization", Lin et al.
// 2023). Inputs that are large lose most when their weights are rounded, so their weights are made
// larger before rounding, and what produces the inputs is made smaller by as much. The model
// computes the same but for rounding.
//
// The inputs of q, k, v and of gate, up are scaled by factors that go into the norms before them,
// and those of down by factors that go into the rows of up. For each group of matrices the exponent
// is searched that gives the least expected error, by the mean squares of the inputs.
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
  std::function<void(int64_t done, int64_t total)> on_progress = {};  // layers
};

// kUnimplemented: the family's norms have biases, or the scheme has no groups to gain from.
Result<Rescales> activation_aware_rescales(const TensorSource& source, const ModelConfig& config,
                                           const std::vector<LayerInputMeans>& inputs,
                                           ThreadTeam& team, const ScalingOptions& options);

}  // namespace quire
