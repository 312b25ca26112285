// Makes the executors of engines that run side by side, each on GPUs of its own (data parallel).
// Each has a whole copy of the model, on one GPU or on as many stages and ranks as
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
  // The GPUs of the first engine come first, then those of the next, each in the order of
  // RankedGpus::devices.
  std::vector<std::unique_ptr<Device>> devices;
  int num_engines = 1;
  int num_stages = 1;            // of each engine
  const RankOps* ops = nullptr;  // needed if an engine has several GPUs
  int64_t deadline_ms = 4000;    // GpuRanksOptions::deadline_ms
};

struct GpuEngines {
  std::vector<std::unique_ptr<Executor>> executors;
  ModelPlan plan;  // of one engine
};

// `options` describe one engine. Engines that share a GPU divide its memory. kInvalidArgument: the
// GPUs cannot be divided equally among engines and stages. Other errors are those of
// GpuRunner::create() and GpuRankedExecutor::create().
Result<GpuEngines> make_gpu_engines(const ModelRunnerOptions& options,
                                    const GpuRunnerOptions& gpu_options, EngineGpus gpus);

}  // namespace quire
