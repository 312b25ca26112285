// The Executor that runs a model on one GPU: the forward pass of ModelRunner on another stream.
// Inputs are built on the GPU from what changed; steps in which every request brings one token run
// as captured graphs; tokens are sampled on the GPU and stay there as the next step's inputs, so
// that the next step is queued while one runs. What the GPU's sampler does not know
// (gpu_sampling.h) is sampled on the host by the CPU's sampler, before the next step starts.
//
//   QUIRE_ASSIGN_OR_RETURN(auto device, open_cuda_device({}, cuda_ops()));
//   QUIRE_ASSIGN_OR_RETURN(auto runner, GpuRunner::create({.files = files}, {},
//   std::move(device)));
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/threads/thread_team.h"
#include "core/executor.h"
#include "device/device.h"
#include "exec/gpu/gpu_kv_cache.h"
#include "exec/gpu/gpu_packing.h"
#include "exec/gpu/gpu_sampling.h"
#include "exec/gpu/gpu_step_inputs.h"
#include "exec/gpu/step_graphs.h"
#include "exec/input_batch.h"
#include "exec/logits_stage.h"
#include "exec/model_loading.h"
#include "exec/model_plan.h"
#include "exec/request_table.h"
#include "nn/decoder/decoder.h"

namespace quire {

struct GpuRunnerOptions {
  bool graphs = true;
  // Kernels begin while the one before them ends, up to where they need its results.
  bool programmatic_launch = true;
  // A request's bits then do not depend on its batch (law L4).
  bool deterministic = true;
  bool sample_on_device = true;
  // Kernels of warpgroup products run where there are such, which is on compute capability 9.0.
  bool warpgroup_products = true;
  // Models run whose kernels only emulation has shown to be right: routed experts.
  bool untried_kernels = true;
};

// One thread at a time, the order of core/executor.h. When the device is lost, execute() fails with
// kUnavailable, then and ever after.
class GpuRunner final : public Executor {
 public:
  // Of `options`, isa has no meaning; threads load and sample. dtype: auto or bfloat16, of what the
  // checkpoint does not quantize; kv_cache_dtype: these or fp8 (e4m3).
  static Result<std::unique_ptr<GpuRunner>> create(ModelRunnerOptions options,
                                                   const GpuRunnerOptions& gpu_options,
                                                   std::unique_ptr<Device> device);
  ~GpuRunner() override;

  const ModelPlan& plan() const { return plan_; }
  const GpuPackingCounts& packing() const { return packing_.counts(); }
  int64_t num_host_sampled_steps() const { return num_host_sampled_steps_; }
  const GraphStats& graph_stats() const { return graphs_->stats(); }

  ExecutorInfo info() const override;
  KvSpec kv_spec() const override { return plan_.kv.spec; }
  int64_t available_kv_bytes() const override { return plan_.memory.kv_cache; }
  bool keeps_blocks_on_host() const override { return true; }
  HostBlocks host_blocks() override { return kv_->host_blocks(); }
  Status initialize(const KvPlan& plan) override;
  Status warm_up() override;
  Result<StepResult> execute(const StepPlan& plan) override;
  int32_t max_steps_in_flight() const override { return kGpuStepsInFlight; }
  Status submit(const StepPlan& plan) override;
  Result<StepResult> collect() override;
  void recycle(StepResult&& result) override;
  bool work_while_idle() override;
  std::optional<GraphCounts> graph_counts() const override;

 private:
  // A step from submit() to collect().
  struct Step {
    std::unique_ptr<InputBatch> batch;
    std::unique_ptr<Event> event;  // everything of the step is done
    StepResult result;
    StepTimings timings;
    Status status;
    int64_t start_us = 0;
    bool on_device = false;  // the device samples; else the host, once the logits are there
    size_t parity = 0;       // of its number: which of the staging buffers are its own
    bool is_done = false;    // result and status are final
  };

  GpuRunner(ModelRunnerOptions options, const GpuRunnerOptions& gpu_options,
            std::unique_ptr<Device> device, ThreadTeam team);
  Status prepare(ModelLoading& loading);
  Status plan_memory(const ModelLoading& loading);
  Status load(const ModelLoading& loading);
  Status allocate_workspace();

  int64_t num_under_way() const { return num_submitted_ - num_collected_; }
  Step& step_at(int64_t number) { return steps_[static_cast<size_t>(number % kGpuStepsInFlight)]; }
  bool needs_values(const StepPlan& plan);
  // What the plan says of requests, to all who keep something of them: also where one refuses it,
  // since `dropped` is said once.
  Status apply(const StepPlan& plan);
  // Queues all work of the step, from the requests' state to the copies of its results.
  Status queue(const StepPlan& plan, Step& step);
  void run_forward(const StepPlan& plan, const Step& step);
  // The tokens of the next step without a graph that is to run while idle; 0: none.
  int64_t next_eager_size() const;
  Status sample(const StepPlan& plan, Step& step);
  // Waits for the step and fills its result.
  void finish(Step& step);
  Status compute_logits(std::span<const int32_t> tokens);

  ModelRunnerOptions options_;
  GpuRunnerOptions gpu_options_;
  std::unique_ptr<Device> device_;
  ThreadTeam team_;
  GpuPacking packing_;
  ModelPlan plan_;
  GraphDispatcher dispatcher_;  // as graphs_ began
  std::unique_ptr<DecoderWeights> weights_;
  Arena weight_memory_;
  Arena workspace_;
  Arena batch_memory_;
  Arena pinned_;  // what travels between host and device
  Arena pinned_logits_;
  int32_t* rows_on_device_ = nullptr;  // [max_logit_rows]
  int32_t* rows_ = nullptr;            // pinned [max_logit_rows]
  float* logits_on_device_ = nullptr;
  float* logits_on_host_ = nullptr;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<GpuKvCache> kv_;
  std::unique_ptr<GpuStepInputs> inputs_;
  std::unique_ptr<GpuSampling> sampling_;
  std::unique_ptr<LogitsStage> logits_;
  std::unique_ptr<RequestTable> requests_;
  std::unique_ptr<StepGraphs> graphs_;
  std::vector<RequestStepResult> spare_results_[kGpuStepsInFlight];  // for their memory
  std::array<Step, kGpuStepsInFlight> steps_;                        // step n: n modulo the size
  int64_t num_submitted_ = 0;
  int64_t num_collected_ = 0;
  int64_t num_host_sampled_steps_ = 0;
  int64_t num_idle_tokens_ = 0;  // of the last step that ran for next_eager_size()
};

}  // namespace quire
