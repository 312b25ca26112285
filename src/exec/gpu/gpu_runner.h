// GpuRunner is the Executor that runs a model on one GPU, with the forward pass of ModelRunner on
// the GPU's stream. The GPU builds its inputs from what changed since the last step. A step in
// which every request has one token runs as a captured graph. Tokens are sampled on the GPU and
// stay there as the next step's inputs, so that the next step can be queued while one runs.
// Requests whose parameters the GPU's sampler does not support (gpu_sampling.h) are sampled on the
// host by the CPU's sampler, before the next step starts.
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

// Memory of the device and pinned host memory that a runner takes beside the weights and the KV
// cache.
struct GpuRunnerMemory {
  Arena workspace;
  Arena batch;
  Arena pinned;  // buffers of the copies between host and device
  Arena pinned_logits;
};

// One thread at a time calls it, in the order of core/executor.h. When the device is lost, this and
// every later execute() fails with kUnavailable.
class GpuRunner final : public Executor {
 public:
  // `options.isa` is ignored, and the threads load weights and sample. The dtype must be auto or
  // bfloat16; it is that of the weights that the checkpoint does not quantize. kv_cache_dtype is
  // auto, bfloat16 or fp8 (e4m3).
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

  // Applies the plan to every part that keeps a state per request. A part that fails does not keep
  // the others from seeing the plan, since a plan reports each dropped request only once.
  Status apply(const StepPlan& plan);
  // Tells the KV cache which blocks the step under way uses.
  void find_blocks_in_use();
  // Queues all work of the step, from the requests' state to the copies of its results.
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
  std::unique_ptr<GpuHiddenStates> hidden_;  // null: the step computes nothing but logits from them
  GpuSteps steps_;
  int64_t num_host_sampled_steps_ = 0;
  mutable GraphCounts graph_counts_;  // kept for its memory
  int64_t num_idle_tokens_ = 0;       // of the last step that ran eagerly while idle
};

}  // namespace quire
