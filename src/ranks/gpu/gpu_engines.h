// These functions make executors of engines that answer side by side, each on GPUs of its own (data
// parallel). Each is a whole copy of the model, on one GPU or on as many stages and ranks as
// GpuRankedExecutor takes.
//
//   QUIRE_ASSIGN_OR_RETURN(GpuEngines made, make_gpu_engines(options, {}, {.devices = std::move(gpus)}));
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/executor.h"
#include "exec/gpu/gpu_runner.h"
#include "kernels/api/ranks/rank_ops.h"

namespace quire {

struct EngineGpus {
  // Those of the first engine come first, then those of the next, each as RankedGpus has them.
  std::vector<std::unique_ptr<Device>> devices;
  int num_engines = 1;
  int num_stages = 1;            // of each engine
  const RankOps* ops = nullptr;  // where an engine has several GPUs
  int64_t deadline_ms = 4000;    // GpuRanksOptions::deadline_ms
};

struct GpuEngines {
  std::vector<std::unique_ptr<Executor>> executors;
  ModelPlan plan;  // of one of them
};

// `options` are those of one engine. Engines that share a GPU divide its memory. kInvalidArgument:
// engines and stages do not have as many GPUs each. Other errors are those of GpuRunner::create()
// and GpuRankedExecutor::create().
Result<GpuEngines> make_gpu_engines(const ModelRunnerOptions& options,
                                    const GpuRunnerOptions& gpu_options, EngineGpus gpus);

}  // namespace quire
