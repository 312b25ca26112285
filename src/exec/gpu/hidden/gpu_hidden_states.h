// GpuHiddenStates makes of hidden states on a GPU what is not logits: pooled outputs, and the states
// that a model which drafts reads of the one that is served. They go through the host.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/threads/thread_team.h"
#include "core/step.h"
#include "device/device.h"
#include "exec/hidden/hidden_stages.h"
#include "exec/input_batch.h"
#include "exec/model_plan.h"
#include "exec/pooling_stage.h"
#include "exec/request_table.h"
#include "nn/decoder/decoder.h"
#include "tensor/arena.h"

namespace quire {

// It borrows what it is made of, and one thread may use it. It waits for the device behind each step,
// so that a runner which has it has one step under way.
class GpuHiddenStates {
 public:
  // Returns whether a runner of such a model needs one.
  static bool are_wanted(const ModelRunnerOptions& options, const ModelPlan& plan);
  static int64_t device_bytes(const ModelRunnerOptions& options, const ModelPlan& plan);
  static int64_t pinned_bytes(const ModelRunnerOptions& options, const ModelPlan& plan);

  struct Parts {
    const ModelRunnerOptions& options;
    const ModelPlan& plan;
    Device& device;
    Decoder& decoder;
    ThreadTeam& team;
    Arena& memory;  // of the device
    Arena& pinned;
  };
  explicit GpuHiddenStates(const Parts& parts);

  PoolingInfo pooling() const { return pooling_ == nullptr ? PoolingInfo{} : pooling_->info(); }
  // Is called before the forward pass of a step and behind RequestTable::apply(). Sets what the pass
  // reads.
  Status before(const StepPlan& plan, RequestTable& requests, ForwardInputs& inputs);
  // Sets the same for a pass of no request.
  void before_none(ForwardInputs& inputs) const { hidden_.before_none(inputs); }
  // Is called once the step's tokens are sampled. kUnavailable: the GPU is lost.
  Status after(const InputBatch& batch, std::vector<RequestStepResult>& results);

 private:
  std::unique_ptr<PoolingStage> pooling_;  // of models for pooling
  HiddenStages hidden_;
  StepPlan plan_;                  // of the step under way
  std::vector<HiddenText> texts_;  // of the last step, kept for its capacity
};

}  // namespace quire
