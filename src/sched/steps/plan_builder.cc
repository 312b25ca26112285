#include "sched/steps/plan_builder.h"

#include <utility>

#include "base/check.h"

namespace quire {

StepPlan& PlanBuilder::build() {
  clear();
  for (Entry* entry : state_.roster.running()) {
    if (entry->num_granted > 0) add(*entry);
  }
  QUIRE_CHECK(budget_.num_tokens >= 0 &&
                  state_.roster.num_running() <= state_.config.max_running() &&
                  plan_.total_num_scheduled_tokens + budget_.num_tokens == budget_.max_tokens &&
                  budget_.max_tokens <= state_.config.max_num_batched_tokens,
              "S-1: {} tokens for {} requests", plan_.total_num_scheduled_tokens,
              state_.roster.num_running());
  finish();
  return plan_;
}

void PlanBuilder::clear() {
  constexpr size_t kMaxSpare = 4;
  for (NewRequest& added : plan_.new_requests) {
    if (spare_tokens_.size() < kMaxSpare) spare_tokens_.push_back(std::move(added.token_ids));
  }
  plan_.clear();
  entries_.clear();
}

inline void PlanBuilder::add(Entry& entry) {
  const Request& request = entry.request;
  const auto num_drafts = static_cast<int32_t>(entry.drafts.size());
  const bool will_sample =
      samples(request.kind) && entry.num_granted == entry.num_new_tokens() + num_drafts;
  const bool whole = !entry.known_to_executor;
  if (whole) add_new_request(request);
  entry.known_to_executor = true;
  state_.kv.tables().append_updates(entry.sequence, static_cast<int32_t>(plan_.scheduled.size()),
                                    whole, plan_.block_updates);
  plan_.scheduled.push_back({.id = request.id,
                             .num_computed_tokens = entry.next_position(),
                             .num_scheduled_tokens = entry.num_granted,
                             .num_drafts = num_drafts,
                             .first_draft = static_cast<int32_t>(plan_.draft_token_ids.size())});
  plan_.draft_token_ids.insert(plan_.draft_token_ids.end(), entry.drafts.begin(),
                               entry.drafts.end());
  plan_.total_num_scheduled_tokens += entry.num_granted;
  entry.add_flight({.step_id = state_.stats.num_steps + 1,
                    .num_tokens = entry.num_granted,
                    .num_samples = will_sample ? 1 + num_drafts : 0});
  entry.num_granted = 0;
  entries_.push_back(&entry);
}

void PlanBuilder::add_new_request(const Request& request) {
  plan_.new_requests.push_back({.id = request.id,
                                .token_ids = copy_of_tokens(request),
                                .num_prompt_tokens = request.num_prompt_tokens,
                                .params = request.params,
                                .kind = request.kind,
                                .adapter = request.adapter,
                                .pooling = request.pooling,
                                .media = request.media});
}

std::vector<TokenId> PlanBuilder::copy_of_tokens(const Request& request) {
  std::vector<TokenId> copy;
  if (!spare_tokens_.empty()) {
    copy = std::move(spare_tokens_.back());
    spare_tokens_.pop_back();
  }
  copy.assign(request.token_ids.begin(), request.token_ids.end());
  return copy;
}

// Adds what the plan has beside its requests. An empty plan carries nothing, unless KV files wait
// for copies of blocks.
void PlanBuilder::finish() {
  KvManager& kv = state_.kv;
  if (plan_.scheduled.empty()) {
    if (kv.files() != nullptr && kv.files()->wants_a_plan()) {
      plan_.step_id = ++state_.stats.num_steps;
      kv.take_host_copies(plan_.step_id, plan_.host_copies);
    }
    return;
  }
  plan_.step_id = ++state_.stats.num_steps;
  if (state_.config.bounds_step_time()) budget_.time.note_plan(plan_, entries_);
  state_.stats.num_scheduled_tokens += plan_.total_num_scheduled_tokens;
  plan_.dropped.swap(state_.roster.dropped);
  state_.roster.media.cache().take(plan_);
  kv.take_host_copies(plan_.step_id, plan_.host_copies);
  plan_.block_copies.assign(kv.tables().copies().begin(), kv.tables().copies().end());
}

}  // namespace quire
