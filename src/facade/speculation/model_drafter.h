// ModelDrafter: a drafter that runs a model. This is the model that --speculative-config names, the
// first layers of the served model or its copy of 4 bits, or one that reads its hidden states.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "core/executor.h"
#include "core/hidden_rows.h"
#include "draft/drafter.h"
#include "exec/model_plan.h"
#include "facade/speculation/speculative_config.h"

namespace quire {

struct ModelDrafter {
  std::shared_ptr<Drafter> drafter;
  std::string name;
  int64_t vocab_size = 0;
  // What the drafter reads of the served model; the served model's runner must get it too. Null: it
  // reads nothing.
  std::shared_ptr<HiddenRows> hidden_rows = {};
  int32_t num_speculative_tokens = 0;  // the most drafts of a request in one step
};

// Loads a model and prepares its executor.
using LoadExecutor = std::function<Result<std::unique_ptr<Executor>>(const ModelRunnerOptions&)>;

// Loads the drafter of the served model `target`, takes KV memory for it (an eighth of the
// available memory, and no more than requests can use) and measures its steps.
Result<ModelDrafter> make_model_drafter(const SpeculativeConfig& config,
                                        const ModelRunnerOptions& target, const LoadExecutor& load);

// Checks that ids mean the same for both models.
Status check_same_vocabulary(const ModelDrafter& drafter, int64_t vocab_size);

}  // namespace quire
