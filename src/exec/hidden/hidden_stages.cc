#include "exec/hidden/hidden_stages.h"

namespace quire {

int64_t HiddenStages::memory_bytes(const HiddenRows* rows, bool drafts, const DecoderSpec& spec,
                                   const DecoderLimits& limits) {
  if (rows == nullptr || drafts) return HiddenInlet::memory_bytes(spec, limits);
  return HiddenOutlet::memory_bytes(rows->spec(), spec, limits);
}

int64_t HiddenStages::num_floats(const HiddenRows* rows, bool drafts, const DecoderSpec& spec,
                                 const DecoderLimits& limits) {
  if (rows == nullptr || drafts) return HiddenInlet::num_floats(spec, limits);
  return HiddenOutlet::num_floats(rows->spec(), spec, limits);
}

HiddenStages::HiddenStages(std::shared_ptr<HiddenRows> rows, bool drafts, Decoder& decoder,
                           const DecoderSpec& spec, const DecoderLimits& limits,
                           float residual_scale, Arena& arena, RowTransfer transfer)
    : rows_(std::move(rows)) {
  if (rows_ == nullptr) return;
  if (drafts) {
    inlet_.emplace(rows_, decoder, spec, limits, arena, transfer);
  } else {
    outlet_.emplace(rows_, decoder, spec, limits, residual_scale, arena, transfer);
  }
}

Status HiddenStages::before(const StepPlan& plan, ForwardInputs& inputs) {
  if (outlet_) inputs.taps = outlet_->taps();
  if (!inlet_) return {};
  QUIRE_ASSIGN_OR_RETURN(inputs.draft_rows, inlet_->rows(plan));
  return {};
}

Status HiddenStages::after(const StepPlan& plan) {
  if (outlet_) QUIRE_RETURN_IF_ERROR(outlet_->put(plan));
  return inlet_ ? inlet_->keep(plan) : Status();
}

void HiddenStages::before_none(ForwardInputs& inputs) const {
  if (outlet_) inputs.taps = outlet_->taps();
  if (inlet_) inputs.draft_rows = inlet_->empty_rows();
}

}  // namespace quire
