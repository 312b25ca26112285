// make_model_executor() chooses where a model runs: on a GPU or on the CPU, on how many ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/executor.h"
#include "exec/model_plan.h"
#include "facade/engine_args.h"
#include "ranks/rank_process.h"

namespace quire {

struct ModelExecutor {
  std::vector<std::unique_ptr<Executor>> executors;  // args.data_parallel_size, of the same model
  ModelPlan plan;
  bool on_gpu = false;
  // Of GPUs: what decides, beside the program, how their sums are rounded.
  std::string gpus = {};
};

RankProcess rank_process(const EngineArgs& args);

// Returns the device that args.device asks for on this machine. "auto" comes back as "cpu" when no GPU
// is there, or when something was asked for that CPUs alone do, which the log then says.
std::string device_of(const EngineArgs& args);

// args.device decides. "cuda" is that GPU or an error. "auto" is a GPU when this build has kernels
// for it, one is there and takes the model with its memory; else it is the CPU. `options` are those
// of the CPU's runner.
Result<ModelExecutor> make_model_executor(const EngineArgs& args,
                                          const ModelRunnerOptions& options);

// Returns whether the CPU takes what a GPU refused with `refusal`, and logs it if so. It does when
// args.device is "auto" and the model, an adapter or its memory is the reason.
bool goes_to_cpu(const EngineArgs& args, const Status& refusal);

}  // namespace quire
