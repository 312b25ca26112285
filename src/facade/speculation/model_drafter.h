// The drafters that run a model: the one that --speculative-config names, or the first layers of the
// served one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "core/executor.h"
#include "draft/drafter.h"
#include "exec/model_plan.h"
#include "facade/speculation/speculative_config.h"

namespace quire {

struct ModelDrafter {
  std::shared_ptr<Drafter> drafter;
  std::string name;
  int64_t vocab_size = 0;
};

// Loads a model and makes ready to run it.
using LoadExecutor = std::function<Result<std::unique_ptr<Executor>>(const ModelRunnerOptions&)>;

// `target`: the served model's. Loads, takes KV memory (an eighth of what there is, and no more than
// requests can use) and measures its steps.
Result<ModelDrafter> make_model_drafter(const SpeculativeConfig& config,
                                        const ModelRunnerOptions& target, const LoadExecutor& load);

// Ids of the two must mean the same.
Status check_same_vocabulary(const ModelDrafter& drafter, int64_t vocab_size);

}  // namespace quire
