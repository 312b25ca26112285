// make_model_executor() chooses where a model runs: on GPUs or on the CPU, and on how many ranks.
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
  // There are args.data_parallel_size executors, all of the same model.
  std::vector<std::unique_ptr<Executor>> executors;
  ModelPlan plan;
  bool on_gpu = false;
  // On GPUs: the properties, beside the program, on which the rounding of sums depends.
  std::string gpus = {};
};

RankProcess rank_process(const EngineArgs& args);

// Returns the device that args.device asks for on this machine. For "auto" it is "cpu" if there is
// no GPU, or if args need something that only CPUs do, which is then logged.
std::string device_of(const EngineArgs& args);

// Makes the executors on the device of args.device. "cuda" is a GPU or an error. "auto" is a GPU if
// this build has kernels for it, it is there and its memory holds the model; else it is the CPU.
// `options` are those of the CPU's runner.
Result<ModelExecutor> make_model_executor(const EngineArgs& args,
                                          const ModelRunnerOptions& options);

// Returns whether the CPU should run a model that a GPU refused with `refusal`, and logs that. It
// should if args.device is "auto" and the reason is the model, an adapter or the memory.
bool goes_to_cpu(const EngineArgs& args, const Status& refusal);

}  // namespace quire
