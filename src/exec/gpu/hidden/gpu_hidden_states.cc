#include "exec/gpu/hidden/gpu_hidden_states.h"

namespace quire {
namespace {

bool drafts(const ModelRunnerOptions& options) { return options.draft_head != nullptr; }

std::unique_ptr<PoolingStage> pooling_of(const GpuHiddenStates::Parts& parts) {
  const ModelPlan& plan = parts.plan;
  if (!plan.spec.pooling.any()) return nullptr;
  const RowTransfer transfer(parts.device, parts.pinned,
                             PoolingStage::num_floats(plan.spec, plan.limits));
  return std::make_unique<PoolingStage>(
      plan.spec, plan.limits, parts.decoder,
      PoolingStage::Place{parts.device.stream(), parts.team, parts.memory, transfer});
}

int64_t num_hidden_floats(const ModelRunnerOptions& options, const ModelPlan& plan) {
  return HiddenStages::num_floats(options.hidden_rows.get(), drafts(options), plan.spec,
                                  plan.limits);
}

}  // namespace

bool GpuHiddenStates::are_wanted(const ModelRunnerOptions& options, const ModelPlan& plan) {
  return options.hidden_rows != nullptr || plan.spec.pooling.any();
}

int64_t GpuHiddenStates::device_bytes(const ModelRunnerOptions& options, const ModelPlan& plan) {
  return PoolingStage::memory_bytes(plan.spec, plan.limits) +
         HiddenStages::memory_bytes(options.hidden_rows.get(), drafts(options), plan.spec,
                                    plan.limits);
}

int64_t GpuHiddenStates::pinned_bytes(const ModelRunnerOptions& options, const ModelPlan& plan) {
  return RowTransfer::pinned_bytes(PoolingStage::num_floats(plan.spec, plan.limits)) +
         RowTransfer::pinned_bytes(num_hidden_floats(options, plan));
}

GpuHiddenStates::GpuHiddenStates(const Parts& parts)
    : pooling_(pooling_of(parts)),
      hidden_(
          parts.options.hidden_rows, drafts(parts.options), parts.decoder, parts.plan.spec,
          parts.plan.limits, static_cast<float>(parts.plan.config.residual_multiplier),
          parts.memory,
          RowTransfer(parts.device, parts.pinned, num_hidden_floats(parts.options, parts.plan))) {}

Status GpuHiddenStates::before(const StepPlan& plan, RequestTable& requests,
                               ForwardInputs& inputs) {
  for (const NewRequest& request : plan.new_requests)
    requests.find(request.id)->first_position = hidden_.first_position(request.id);
  plan_.dropped = plan.dropped;
  plan_.scheduled = plan.scheduled;
  plan_.total_num_scheduled_tokens = plan.total_num_scheduled_tokens;
  return hidden_.before(plan, inputs);
}

Status GpuHiddenStates::after(const InputBatch& batch, std::vector<RequestStepResult>& results) {
  if (pooling_ != nullptr) QUIRE_RETURN_IF_ERROR(pooling_->run(plan_, batch, results));
  QUIRE_RETURN_IF_ERROR(hidden_.after(plan_));
  if (!hidden_.is_read()) return {};
  list_texts(batch, texts_);
  hidden_.end_step(texts_);
  return {};
}

}  // namespace quire
