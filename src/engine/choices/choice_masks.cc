#include "engine/choices/choice_masks.h"

#include <algorithm>
#include <utility>

namespace quire {

void ChoiceMasks::add(Choice& choice) {
  if (choice.mask_source == nullptr) return;
  choices_[choice.request_id] = &choice;
  pending_.push_back({&choice});
}

void ChoiceMasks::remove(const Choice& choice) {
  if (choice.mask_source == nullptr) return;
  choices_.erase(choice.request_id);
  std::erase_if(pending_, [&](const Pending& pending) { return pending.choice == &choice; });
}

Status ChoiceMasks::accept(Choice& choice, std::span<const TokenId> token_ids) {
  if (choice.mask_source == nullptr) return {};
  QUIRE_RETURN_IF_ERROR(choice.mask_source->accept(token_ids));
  pending_.push_back({&choice});
  return {};
}

size_t ChoiceMasks::count_allowed(RequestId id, std::span<const TokenId> drafts) {
  const auto it = choices_.find(id);
  if (it == choices_.end() || drafts.empty()) return drafts.size();
  const Result<int32_t> count = it->second->mask_source->count_allowed(drafts);
  // The error of a failed source comes again when masks are filled, and ends its choice there.
  return count.ok() ? std::min(drafts.size(), static_cast<size_t>(std::max(0, *count))) : 0;
}

std::span<const TokenId> ChoiceMasks::forced(RequestId id) const {
  const auto it = choices_.find(id);
  return it == choices_.end() ? std::span<const TokenId>() : it->second->mask_source->forced();
}

// Asks in reverse order: when the last mask is there, the others are too, and the thread wakes
// once.
void ChoiceMasks::hold_late() {
  std::for_each(pending_.rbegin(), pending_.rend(), [this](Pending& pending) {
    const bool is_late = !pending.choice->mask_source->ready();
    if (is_late != pending.is_held) scheduler_.hold(pending.choice->request_id, is_late);
    pending.is_held = is_late;
  });
  std::erase_if(pending_, [](const Pending& pending) { return !pending.is_held; });
}

std::span<ChoiceMasks::Failure> ChoiceMasks::complete(StepPlan& plan) {
  failures_.clear();
  if (choices_.empty()) return failures_;
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    Choice* choice = sampled_choice(scheduled);
    if (choice != nullptr) choice->mask_source->begin(plan.drafts(scheduled));
  }
  // In reverse order, as in hold_late().
  std::for_each(plan.scheduled.rbegin(), plan.scheduled.rend(), [&](ScheduledRequest& scheduled) {
    Choice* choice = sampled_choice(scheduled);
    if (choice == nullptr) return;
    Status status = fill(*choice, scheduled, plan);
    if (!status.ok()) failures_.push_back({choice, std::move(status)});
  });
  return failures_;
}

Choice* ChoiceMasks::sampled_choice(const ScheduledRequest& scheduled) const {
  const auto it = choices_.find(scheduled.id);
  if (it == choices_.end()) return nullptr;
  const Request* request = scheduler_.find(scheduled.id);
  const int32_t end =
      scheduled.num_computed_tokens + scheduled.num_scheduled_tokens - scheduled.num_drafts;
  return request == nullptr || end < request->num_tokens() ? nullptr : it->second;
}

Status ChoiceMasks::fill(Choice& choice, ScheduledRequest& scheduled, StepPlan& plan) {
  TokenMasks& masks = plan.token_masks;
  const auto num_rows = static_cast<size_t>(scheduled.num_drafts + 1);
  masks.num_words = words_per_mask(vocab_size_);
  const size_t begin = masks.words.size();
  const int32_t row = masks.num_rows();
  masks.words.resize(begin + num_rows * static_cast<size_t>(masks.num_words), 0);
  const Result<bool> filled =
      choice.mask_source->fill(plan.drafts(scheduled), std::span(masks.words).subspan(begin));
  if (filled.ok() && *filled) {
    scheduled.mask_row = row;
  } else {
    masks.words.resize(begin);
  }
  return filled.status();
}

}  // namespace quire
