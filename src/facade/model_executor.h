// Chooses where a model runs: on a GPU or on the CPU.
#pragma once

#include <memory>

#include "base/result.h"
#include "core/executor.h"
#include "exec/model_plan.h"
#include "facade/engine_args.h"

namespace quire {

struct ModelExecutor {
  std::unique_ptr<Executor> executor;
  ModelPlan plan;
};

// By args.device. "cuda": that GPU or an error. "auto": a GPU when this build has kernels for it,
// one is there and the model is one that they take; else the CPU. `options` are those of the CPU's
// runner.
Result<ModelExecutor> make_model_executor(const EngineArgs& args,
                                          const ModelRunnerOptions& options);

}  // namespace quire
