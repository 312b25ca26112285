// GpuHiddenStates computes from hidden states on a GPU everything but logits: the pooled outputs of
// requests, and the hidden states that a draft model reads of the served model. Both pass through
// the host.
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

// Borrows its arguments. One thread may use it. It waits for the device after each step, so a
// runner that has it keeps only one step under way.
class GpuHiddenStates {
 public:
  // Returns whether a runner of such a model needs a GpuHiddenStates.
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
  // Is called before the forward pass of a step and after RequestTable::apply(). Sets those of the
  // pass's inputs that concern hidden states.
  Status before(const StepPlan& plan, RequestTable& requests, ForwardInputs& inputs);
  // Sets the same for a pass of no request.
  void before_none(ForwardInputs& inputs) const { hidden_.before_none(inputs); }
  // Is called when the step's tokens are sampled. kUnavailable: the GPU is lost.
  Status after(const InputBatch& batch, std::vector<RequestStepResult>& results);

 private:
  std::unique_ptr<PoolingStage> pooling_;  // null unless the model pools
  HiddenStages hidden_;
  StepPlan plan_;                  // of the step under way
  std::vector<HiddenText> texts_;  // of the last step, kept for its capacity
};

}  // namespace quire
