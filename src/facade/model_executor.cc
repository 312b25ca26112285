#include "facade/model_executor.h"

#include <utility>

#include "device/cuda_device.h"
#include "exec/gpu/gpu_runner.h"
#include "exec/model_runner.h"
#include "kernels/cuda_ops.h"

namespace quire {
namespace {

Result<ModelExecutor> on_cpu(const ModelRunnerOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<ModelRunner> runner, ModelRunner::create(options));
  ModelPlan plan = runner->plan();
  return ModelExecutor{std::move(runner), std::move(plan)};
}

Result<ModelExecutor> on_cuda(const EngineArgs& args, const ModelRunnerOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, open_cuda_device({}, cuda_ops()));
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<GpuRunner> runner,
                         GpuRunner::create(options,
                                           {.graphs = !args.enforce_eager,
                                            .programmatic_launch = args.programmatic_launch,
                                            .deterministic = args.deterministic,
                                            .warpgroup_products = !args.deterministic},
                                           std::move(device)));
  ModelPlan plan = runner->plan();
  return ModelExecutor{std::move(runner), std::move(plan)};
}

}  // namespace

Result<ModelExecutor> make_model_executor(const EngineArgs& args,
                                          const ModelRunnerOptions& options) {
  if (args.device == "cpu") return on_cpu(options);
  if (args.device == "cuda") return on_cuda(args, options);
  if (args.device != "auto")
    return invalid_argument("--device: expected auto, cpu or cuda, got {}", args.device);
  if (!built_with_cuda()) return on_cpu(options);
  Result<ModelExecutor> executor = on_cuda(args, options);
  if (executor.ok()) return executor;
  const StatusCode code = executor.status().code();
  const bool is_for_cpu = code == StatusCode::kUnavailable || code == StatusCode::kUnimplemented;
  return is_for_cpu ? on_cpu(options) : std::move(executor);
}

}  // namespace quire
