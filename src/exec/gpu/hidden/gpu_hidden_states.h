// What becomes of hidden states on a GPU beside logits: pooled outputs, and states for a model that drafts
// or from the one that is served. They go through the host.
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

// Borrows what it is made of. One thread. It waits for the device behind each step, so that a runner
// which has it has one step under way.
class GpuHiddenStates {
 public:
  // Whether a runner has hidden states to see to.
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
  // Around the forward pass of a step, behind RequestTable::apply().
  Status before(const StepPlan& plan, RequestTable& requests, ForwardInputs& inputs);
  // The same for a pass of no request.
  void before_none(ForwardInputs& inputs) const { hidden_.before_none(inputs); }
  // Once the step's tokens are sampled.
  Status after(const InputBatch& batch, std::vector<RequestStepResult>& results);

 private:
  std::unique_ptr<PoolingStage> pooling_;  // of models for pooling
  HiddenStages hidden_;
  StepPlan plan_;                  // of the step under way
  std::vector<HiddenText> texts_;  // of the last step, kept for its capacity
};

}  // namespace quire
