// Activation-aware scaling (after "AWQ: Activation-aware Weight Quantization", Lin et al. 2023):
// inputs that are large lose most when their weights are rounded, so their weights are made larger
// before rounding and what produces the inputs is made smaller by as much. The model computes the
// same but for rounding.
//
// Scaled are the inputs of q, k, v and of gate, up, whose factors go into the norms before them,
// and of down, whose factors go into the rows of up. Per matrix group the exponent is searched that
// gives the least expected error, by the mean squares of the inputs.
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

// kUnimplemented: a family whose norms have biases, or a scheme that has no groups to gain from.
Result<Rescales> activation_aware_rescales(const TensorSource& source, const ModelConfig& config,
                                           const std::vector<LayerInputs>& inputs, ThreadTeam& team,
                                           const ScalingOptions& options);

}  // namespace quire
