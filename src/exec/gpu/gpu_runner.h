// GpuRunner is the Executor that runs a model on one GPU: it does the forward pass of ModelRunner
// on another stream. Inputs are built on the GPU from what changed; steps in which every request
// brings one token run as captured graphs; tokens are sampled on the GPU and stay there as the next
// step's inputs, so that the next step is queued while one runs. What the GPU's sampler does not
// know (gpu_sampling.h) is sampled on the host by the CPU's sampler, before the next step starts.
//
//   QUIRE_ASSIGN_OR_RETURN(auto device, open_cuda_device({}, cuda_ops()));
//   QUIRE_ASSIGN_OR_RETURN(auto runner, GpuRunner::create({.files = files}, {},
//   std::move(device)));
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/executor.h"
#include "device/device.h"
#include "exec/gpu/adapters/gpu_adapters.h"
#include "exec/gpu/gpu_kv_cache.h"
#include "exec/gpu/gpu_logits.h"
#include "exec/gpu/gpu_model.h"
#include "exec/gpu/gpu_sampling.h"
#include "exec/gpu/gpu_step_inputs.h"
#include "exec/gpu/gpu_steps.h"
#include "exec/gpu/graphs/step_graphs.h"
#include "exec/gpu/hidden/gpu_hidden_states.h"
#include "exec/logits_stage.h"
#include "exec/request_table.h"
#include "nn/decoder/decoder.h"
#include "nn/rank_exchange.h"

namespace quire {

// What a runner takes of the device and of pinned host memory beside the weights and the KV cache.
struct GpuRunnerMemory {
  Arena workspace;
  Arena batch;
  Arena pinned;  // what travels between host and device
  Arena pinned_logits;
};

// One thread at a time calls it, in the order of core/executor.h. When the device is lost,
// execute() fails with kUnavailable, then and ever after.
class GpuRunner final : public Executor {
 public:
  // Of `options`, isa has no meaning; threads load and sample. The dtype is auto or bfloat16, for
  // what the checkpoint does not quantize, and kv_cache_dtype is one of these or fp8 (e4m3).
  static Result<std::unique_ptr<GpuRunner>> create(ModelRunnerOptions options,
                                                   const GpuRunnerOptions& gpu_options,
                                                   std::unique_ptr<Device> device);
  ~GpuRunner() override;

  const GpuModel& model() const { return *model_; }
  int64_t num_host_sampled_steps() const { return num_host_sampled_steps_; }
  const GraphStats& graph_stats() const { return graphs_->stats(); }

  ExecutorInfo info() const override;
  KvSpec kv_spec() const override { return plan_.kv.spec; }
  int64_t available_kv_bytes() const override { return plan_.memory.kv_cache; }
  bool keeps_blocks_on_host() const override { return true; }
  KvHostMemory host_memory() override;
  Status initialize(const KvPlan& plan) override;
  Status warm_up() override;
  Result<StepResult> execute(const StepPlan& plan) override;
  int32_t max_steps_in_flight() const override {
    return hidden_ != nullptr ? 1 : model_->gpu_options().steps_in_flight();
  }
  Status submit(const StepPlan& plan) override;
  Result<StepResult> collect() override;
  void recycle(StepResult&& result) override;
  bool work_while_idle() override;
  Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& name,
                                                      const std::string& path) const override;
  const GraphCounts* graph_counts() const override;

 private:
  GpuRunner(std::unique_ptr<GpuModel> model, GpuRunnerMemory memory, GpuSteps::Events events,
            std::unique_ptr<GpuAdapters> adapters);

  // What the plan says of requests, to all who keep something of them: also where one refuses it,
  // since `dropped` is said once.
  Status apply(const StepPlan& plan);
  // Queues all work of the step, from the requests' state to the copies of its results.
  // Tells the cache which blocks the step under way has.
  void find_blocks_in_use();
  Status queue(const StepPlan& plan, GpuStep& step);
  Status sample(const StepPlan& plan, GpuStep& step);
  // Waits for the step and fills its result.
  void finish(GpuStep& step);

  std::unique_ptr<GpuModel> model_;
  const ModelPlan& plan_;
  Device& device_;
  GpuRunnerMemory memory_;
  std::optional<RankExchange> ranks_;  // of one rank among several
  GpuStageLink* link_;                 // of one stage among several; else null
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<GpuKvCache> kv_;
  std::unique_ptr<GpuStepInputs> inputs_;
  std::unique_ptr<GpuSampling> sampling_;
  std::unique_ptr<GpuLogits> host_logits_;
  std::unique_ptr<LogitsStage> logits_;
  std::unique_ptr<RequestTable> requests_;
  std::unique_ptr<StepGraphs> graphs_;
  std::unique_ptr<GpuAdapters> adapters_;    // null: there are none
  std::unique_ptr<GpuHiddenStates> hidden_;  // null: logits are all that becomes of them
  GpuSteps steps_;
  int64_t num_host_sampled_steps_ = 0;
  mutable GraphCounts graph_counts_;  // kept for its memory
  int64_t num_idle_tokens_ = 0;       // of the last step that ran without a graph while idle
};

}  // namespace quire
