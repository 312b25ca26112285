// layer_inputs() measures the inputs of a model's linear layers on a text: the mean square of every
// input.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/threads/thread_team.h"
#include "device/stream.h"
#include "models/model_config.h"
#include "weights/files/tensor_source.h"

namespace quire {

// For one layer and each input of its matrices: the mean of x^2 over the tokens.
struct LayerInputMeans {
  std::vector<double> qkv;      // [E]
  std::vector<double> gate_up;  // [E]
  std::vector<double> down;     // [F]
};

struct CalibrationOptions {
  Isa isa = Isa::kPortable;
  std::function<void(int64_t done_bytes, int64_t total_bytes)> on_progress = {};  // while loading
};

// Loads the model and runs the tokens through it once, as one sequence. Fails with the errors of
// resolve_checkpoint().
Result<std::vector<LayerInputMeans>> layer_inputs(const TensorSource& source,
                                                  const ModelConfig& config,
                                                  std::span<const TokenId> tokens, ThreadTeam& team,
                                                  const CalibrationOptions& options);

}  // namespace quire
