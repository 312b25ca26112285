// A ModelDrafter runs a model: the one that --speculative-config names, the first layers of the
// served one or its copy of 4 bits, or one that reads the served one's hidden states.
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
  // What the drafter reads of the served model, whose runner must get it too; null: it reads
  // nothing.
  std::shared_ptr<HiddenRows> hidden_rows = {};
  int32_t num_speculative_tokens = 0;  // most drafts of a request in one step
};

// Loads a model and makes ready to run it.
using LoadExecutor = std::function<Result<std::unique_ptr<Executor>>(const ModelRunnerOptions&)>;

// Loads the drafter of the served model `target`, takes KV memory for it (an eighth of what there
// is, and no more than requests can use) and measures its steps.
Result<ModelDrafter> make_model_drafter(const SpeculativeConfig& config,
                                        const ModelRunnerOptions& target, const LoadExecutor& load);

// Ids of the two must mean the same.
Status check_same_vocabulary(const ModelDrafter& drafter, int64_t vocab_size);

}  // namespace quire
