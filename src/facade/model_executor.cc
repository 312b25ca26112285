#include "facade/model_executor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/threads/cpu_topology.h"
#include "device/cuda_device.h"
#include "exec/gpu/gpu_runner.h"
#include "exec/model_runner.h"
#include "facade/parallel/gpu_ordinals.h"
#include "facade/speculation/speculative_config.h"
#include "kernels/cuda_ops.h"
#include "kernels/cuda_rank_ops.h"
#include "ranks/gpu/gpu_engines.h"
#include "ranks/leading_executor.h"
#include "ranks/pipeline_executor.h"
#include "ranks/ranked_executor.h"

namespace quire {
namespace {

ModelExecutor only(std::unique_ptr<Executor> executor, ModelPlan plan) {
  ModelExecutor made;
  made.plan = std::move(plan);
  made.executors.push_back(std::move(executor));
  return made;
}

// Returns `first` and further ones that share its weights, args.data_parallel_size in all.
template <typename T>
Result<ModelExecutor> with_others(std::unique_ptr<T> first, const EngineArgs& args) {
  const T& loaded = *first;
  ModelExecutor made = only(std::move(first), loaded.plan());
  for (int32_t i = 1; i < args.data_parallel_size; ++i) {
    QUIRE_ASSIGN_OR_RETURN(
        std::unique_ptr<Executor> other,
        T::create_beside(loaded, cpus_of_part(std::vector<int>(), i, args.data_parallel_size)));
    made.executors.push_back(std::move(other));
  }
  return made;
}

Result<ModelExecutor> on_cpu(const EngineArgs& args, ModelRunnerOptions options) {
  if (!args.devices.empty())
    return invalid_argument("--devices {}: expected a model on GPUs, got the CPU", args.devices);
  options.cpus = cpus_of_part(options.cpus, 0, args.data_parallel_size);
  if (args.ranks.size > 1) {
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<LeadingExecutor> first,
                           LeadingExecutor::create(options, rank_process(args)));
    ModelPlan plan = first->plan();
    return only(std::move(first), std::move(plan));
  }
  if (args.pipeline_parallel_size != 1) {
    QUIRE_ASSIGN_OR_RETURN(
        std::unique_ptr<PipelineExecutor> stages,
        PipelineExecutor::create(options, {.num_stages = args.pipeline_parallel_size,
                                           .num_ranks = args.tensor_parallel_size}));
    return with_others(std::move(stages), args);
  }
  if (args.tensor_parallel_size != 1) {
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<RankedExecutor> ranks,
                           RankedExecutor::create(options, args.tensor_parallel_size));
    return with_others(std::move(ranks), args);
  }
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<ModelRunner> runner, ModelRunner::create(options));
  return with_others(std::move(runner), args);
}

Status check_cuda(const EngineArgs& args, const ModelRunnerOptions& options) {
  if (args.ranks.size != 1) {
    return unimplemented(
        "--nnodes: expected 1 with --device cuda, got {}: GPUs of one machine share a model by "
        "--tensor-parallel-size and --pipeline-parallel-size",
        args.ranks.size);
  }
  if (options.activation_int8)
    return unimplemented("--activation-int8: expected --device cpu, got cuda");
  return {};
}

Result<std::vector<std::unique_ptr<Device>>> open_gpus(const EngineArgs& args) {
  QUIRE_ASSIGN_OR_RETURN(const int32_t num_gpus, count_cuda_devices());
  QUIRE_ASSIGN_OR_RETURN(const std::vector<int32_t> ordinals,
                         gpu_ordinals(args.devices,
                                      {.num_engines = args.data_parallel_size,
                                       .num_stages = args.pipeline_parallel_size,
                                       .num_ranks = args.tensor_parallel_size},
                                      num_gpus));
  std::vector<std::unique_ptr<Device>> devices;
  for (const int32_t ordinal : ordinals) {
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                           open_cuda_device({.ordinal = ordinal}, cuda_ops()));
    devices.push_back(std::move(device));
  }
  return devices;
}

std::string rounding_of(const std::vector<std::unique_ptr<Device>>& devices, bool deterministic) {
  std::set<std::string> kinds;  // the number of GPUs of one kind changes no bits
  for (const auto& device : devices) {
    const GpuInfo& gpu = device->info().gpu;
    kinds.insert(fmt::format("{} with {} SMs", gpu.compute_capability, gpu.num_sms));
  }
  return fmt::format("cuda {}{}", fmt::join(kinds, ", "),
                     deterministic ? "" : ", not deterministic");
}

Result<ModelExecutor> on_cuda(const EngineArgs& args, const ModelRunnerOptions& options) {
  QUIRE_RETURN_IF_ERROR(check_cuda(args, options));
  const std::optional<GraphMode> graphs =
      parse_graph_mode(args.enforce_eager ? "none" : args.cudagraph_mode);
  if (!graphs) {
    return invalid_argument("--cudagraph-mode: expected none, piecewise or full, got {}",
                            args.cudagraph_mode);
  }
  const GpuRunnerOptions gpu_options{.graphs = *graphs,
                                     .programmatic_launch = args.programmatic_launch,
                                     .deterministic = args.deterministic};
  QUIRE_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Device>> devices, open_gpus(args));
  std::string gpus = rounding_of(devices, args.deterministic);
  ModelRunnerOptions of_engine = options;
  of_engine.num_replicas = 1;  // engines on GPUs share nothing
  QUIRE_ASSIGN_OR_RETURN(GpuEngines engines,
                         make_gpu_engines(of_engine, gpu_options,
                                          {.devices = std::move(devices),
                                           .num_engines = args.data_parallel_size,
                                           .num_stages = args.pipeline_parallel_size,
                                           .ops = &cuda_rank_ops()}));
  return ModelExecutor{.executors = std::move(engines.executors),
                       .plan = std::move(engines.plan),
                       .on_gpu = true,
                       .gpus = std::move(gpus)};
}

// Returns the flag that asks for something only CPUs do; null: none.
const char* cpu_only_reason(const EngineArgs& args) {
  if (args.ranks.size != 1) return "--nnodes";
  if (args.activation_int8) return "--activation-int8";
  if (asks_for_drafts(args.speculative_config)) {
    const Result<SpeculativeConfig> config = parse_speculative_config(args.speculative_config);
    if (config.ok() && config->method == SpeculativeMethod::kMedusa) return "Medusa's heads";
  }
  if (args.dtype != "auto" && args.dtype != "bfloat16") return "that --dtype";
  return nullptr;
}

}  // namespace

std::string device_of(const EngineArgs& args) {
  if (args.device != "auto") return args.device;
  if (!built_with_cuda() || !open_cuda_device({}, cuda_ops()).ok()) return "cpu";
  const char* const reason = cpu_only_reason(args);
  if (reason == nullptr) return "auto";
  log_info("--device auto: the CPU, since a GPU does not take {}", reason);
  return "cpu";
}

RankProcess rank_process(const EngineArgs& args) {
  const RankArgs& ranks = args.ranks;
  return {.rank = ranks.rank,
          .size = ranks.size,
          .num_stages = args.pipeline_parallel_size,
          .num_on_host = ranks.num_on_host,
          .address = ranks.address,
          .port = ranks.port};
}

Result<ModelExecutor> make_model_executor(const EngineArgs& args,
                                          const ModelRunnerOptions& options) {
  if (args.device == "cpu") return on_cpu(args, options);
  if (args.device == "cuda") return on_cuda(args, options);
  if (args.device != "auto")
    return invalid_argument("--device: expected auto, cpu or cuda, got {}", args.device);
  if (!built_with_cuda()) return on_cpu(args, options);
  Result<ModelExecutor> executor = on_cuda(args, options);
  if (executor.ok() || !goes_to_cpu(args, executor.status())) return executor;
  return on_cpu(args, options);
}

bool goes_to_cpu(const EngineArgs& args, const Status& refusal) {
  if (args.device != "auto") return false;
  // Unless a GPU was demanded, the CPU also serves models that are too large for the GPU's memory.
  switch (refusal.code()) {
    case StatusCode::kUnavailable:
    case StatusCode::kUnimplemented:
    case StatusCode::kResourceExhausted:
      log_info("--device auto: the CPU, since {}", refusal.message());
      return true;
    default:
      return false;
  }
}

}  // namespace quire
