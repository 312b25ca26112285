// The Executor that runs a model on one GPU: the forward pass of ModelRunner on another stream.
// Steps in which every request brings one token run as captured graphs. Batches are flattened in
// pinned memory and copied as they are; logits of sampled rows come back and are sampled on the
// host, by the same sampler as on the CPU.
//
//   QUIRE_ASSIGN_OR_RETURN(auto device, open_cuda_device({}, cuda_ops()));
//   QUIRE_ASSIGN_OR_RETURN(auto runner, GpuRunner::create({.files = files}, {},
//   std::move(device)));
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/thread_team.h"
#include "core/executor.h"
#include "device/device.h"
#include "exec/graph_dispatcher.h"
#include "exec/input_batch.h"
#include "exec/logits_stage.h"
#include "exec/model_loading.h"
#include "exec/model_plan.h"
#include "exec/request_table.h"
#include "nn/decoder.h"

namespace quire {

struct GpuRunnerOptions {
  bool graphs = true;
  // A request's bits then do not depend on its batch (law L4).
  bool deterministic = true;
};

// One thread at a time, the order of core/executor.h. When the device is lost, execute() fails with
// kUnavailable, then and ever after.
class GpuRunner final : public Executor {
 public:
  // Of `options`, isa has no meaning; threads sample. dtype and kv_cache_dtype: auto or bfloat16.
  static Result<std::unique_ptr<GpuRunner>> create(ModelRunnerOptions options,
                                                   const GpuRunnerOptions& gpu_options,
                                                   std::unique_ptr<Device> device);
  ~GpuRunner() override;

  const ModelPlan& plan() const { return plan_; }
  const GraphStats& graph_stats() const { return dispatcher_.stats(); }

  ExecutorInfo info() const override;
  KvSpec kv_spec() const override { return plan_.kv.spec; }
  int64_t available_kv_bytes() const override { return plan_.memory.kv_cache; }
  Status initialize(const KvPlan& plan) override;
  Status warm_up() override;
  Result<StepResult> execute(const StepPlan& plan) override;

 private:
  GpuRunner(ModelRunnerOptions options, const GpuRunnerOptions& gpu_options,
            std::unique_ptr<Device> device);
  Status prepare(ModelLoading& loading);
  Status plan_memory(const ModelLoading& loading);
  Status load(const ModelLoading& loading);
  Status allocate_workspace();
  Status capture_graphs();

  Status copy_blocks(const std::vector<BlockCopy>& copies);
  // Queues the copy of the batch and returns it as the device sees it.
  ForwardInputs upload_batch();
  void run_forward();
  Status compute_logits(std::span<const int32_t> tokens);

  template <typename T>
  T* on_device(const T* host) const;
  template <typename T>
  T* upload(const T* host, int64_t count);

  ModelRunnerOptions options_;
  GpuRunnerOptions gpu_options_;
  std::unique_ptr<Device> device_;
  ThreadTeam team_;
  ModelPlan plan_;
  GraphDispatcher dispatcher_{0};
  std::unique_ptr<DecoderWeights> weights_;
  Arena weight_memory_;
  Arena workspace_;
  Arena batch_memory_;  // the device's copy of pinned_, byte for byte
  Arena pinned_;        // batch, rows of logits, block copies
  Arena pinned_logits_;
  Arena kv_memory_;
  void* kv_pool_ = nullptr;
  int32_t num_blocks_ = 0;
  std::byte* pinned_base_ = nullptr;
  std::byte* batch_base_ = nullptr;
  int32_t* rows_ = nullptr;    // pinned [max_logit_rows]
  int32_t* copies_ = nullptr;  // pinned [2, kCopiesAtOnce]
  float* logits_on_device_ = nullptr;
  float* logits_on_host_ = nullptr;
  std::vector<KvGroupInputs> device_groups_;  // of the batch that runs
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<InputBatch> batch_;
  std::unique_ptr<LogitsStage> logits_;
  std::unique_ptr<RequestTable> requests_;
  std::vector<std::unique_ptr<Graph>> graphs_;  // per bucket
};

}  // namespace quire
