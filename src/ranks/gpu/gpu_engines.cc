#include "ranks/gpu/gpu_engines.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ranks/gpu/gpu_ranked_executor.h"

namespace quire {
namespace {

// Adds the executor of an engine on `gpus`.
Status add_engine(const ModelRunnerOptions& options, const GpuRunnerOptions& gpu_options,
                  RankedGpus gpus, GpuEngines& made) {
  if (gpus.devices.size() == 1) {
    std::unique_ptr<Device> device = std::move(gpus.devices.front());
    GpuRunnerOptions own = gpu_options;
    own.num_on_gpu += static_cast<int>(std::count(
        gpus.later_ordinals.begin(), gpus.later_ordinals.end(), device->info().gpu.ordinal));
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<GpuRunner> runner,
                           GpuRunner::create(options, own, std::move(device)));
    made.plan = runner->model().plan();
    made.executors.push_back(std::move(runner));
    return {};
  }
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<GpuRankedExecutor> ranks,
                         GpuRankedExecutor::create(options, gpu_options, std::move(gpus)));
  made.plan = ranks->plan();
  made.executors.push_back(std::move(ranks));
  return {};
}

}  // namespace

Result<GpuEngines> make_gpu_engines(const ModelRunnerOptions& options,
                                    const GpuRunnerOptions& gpu_options, EngineGpus gpus) {
  const auto num_gpus = static_cast<int>(gpus.devices.size());
  if (num_gpus < 1 || gpus.num_engines < 1 || num_gpus % gpus.num_engines != 0) {
    return invalid_argument(
        "--data-parallel-size: expected as many GPUs for each of {} engines, got {}",
        gpus.num_engines, num_gpus);
  }
  const int num_each = num_gpus / gpus.num_engines;
  std::vector<int32_t> ordinals;
  for (const auto& device : gpus.devices) ordinals.push_back(device->info().gpu.ordinal);
  GpuEngines made;
  for (auto first = gpus.devices.begin(); first != gpus.devices.end(); first += num_each) {
    RankedGpus own{.group = {.ops = gpus.ops, .deadline_ms = gpus.deadline_ms},
                   .num_stages = gpus.num_stages};
    std::move(first, first + num_each, std::back_inserter(own.devices));
    ordinals.erase(ordinals.begin(), ordinals.begin() + num_each);
    own.later_ordinals = ordinals;
    QUIRE_RETURN_IF_ERROR(add_engine(options, gpu_options, std::move(own), made));
  }
  return made;
}

}  // namespace quire
