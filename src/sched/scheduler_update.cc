// Scheduler: taking the outcome of a step.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sched/scheduler_impl.h"
#include "sched/stop_check.h"

namespace quire {

std::span<const RequestUpdate> Scheduler::Impl::update(const StepResult& result, int64_t now_us) {
  updates_.clear();
  const int64_t prompt_tokens_before = stats_.num_prompt_tokens_computed;
  size_t num_answered = 0;
  const size_t num_finished_before = finished_.size();
  for (size_t i = 0; i < result.requests.size(); ++i) {
    Entry* entry = match(i, result.requests[i].id, result.step_id);
    if (entry == nullptr) continue;
    apply(*entry, result.requests[i]);
    ++num_answered;
  }
  const bool all_answered =
      num_answered > 0 && result.step_id == plan_.step_id && num_answered == plan_.scheduled.size();
  if (!all_answered) fail_unanswered(result.step_id);
  if (finished_.size() != num_finished_before) compact_running();

  if (config_.bounds_step_time()) step_times_.on_done(result.step_id, now_us);
  limits_.on_prefill(stats_.num_prompt_tokens_computed - prompt_tokens_before, now_us - now_us_);
  const KvStats kv = kv_.stats();
  stats_.reserved_slot_steps += kv.num_reserved_slots;
  stats_.unused_slot_steps += kv.num_unused_slots;
#ifdef QUIRE_DEBUG_CHECKS
  const Status integrity = check_integrity();
  QUIRE_DCHECK(integrity.ok(), "{}", integrity.message());
#endif
  return updates_;
}

// The entry that waits for this very result, or null. Results come in the plan's order; anything
// else is looked up.
Entry* Scheduler::Impl::match(size_t index, RequestId id, uint64_t step_id) {
  Entry* entry = index < plan_entries_.size() ? plan_entries_[index] : nullptr;
  if (entry == nullptr || entry->request.id != id) {
    const auto it = by_id_.find(id);
    if (it == by_id_.end()) return nullptr;
    entry = it->second;
  }
  return entry->in_flight() && entry->flights[0].step_id == step_id ? entry : nullptr;
}

void Scheduler::Impl::apply(Entry& entry, const RequestStepResult& result) {
  Request& request = entry.request;
  const Flight flight = entry.flights[0];
  entry.remove_oldest_flight();
  if (!result.status.ok()) return end_with_error(entry, &result, result.status);
  Status as_planned = check_samples(entry, flight, result.sampled_token_ids);
  if (!as_planned.ok()) return end_with_error(entry, &result, std::move(as_planned));
  const auto num_drafts = static_cast<int32_t>(entry.drafts.size());
  entry.drafts.clear();
  RequestUpdate update{
      .id = request.id,
      .result = &result,
      .num_drafts = num_drafts,
      .drafts_from_prediction = num_drafts > 0 && entry.draft_class.from_prediction};
  if (!entry.is_beam()) append_tokens(entry, result.sampled_token_ids, update);
  const auto num_new = static_cast<int32_t>(update.new_token_ids.size());
  const auto num_sampled = static_cast<int32_t>(result.sampled_token_ids.size());
  update.num_accepted_drafts = std::min(num_new, std::max(0, num_sampled - 1));
  if (num_drafts > 0) {
    draft_planner_.on_verified(entry.draft_history, entry.draft_class, num_drafts,
                               update.num_accepted_drafts);
  }
  // What was computed for drafts counts as far as they are the request's tokens now. The last token
  // is never computed by the step that samples it.
  const int32_t begin = request.num_computed_tokens;
  const int32_t end = begin + flight.num_tokens - num_drafts + std::max(0, num_new - 1);
  request.num_computed_tokens = end;
  kv_.tables().commit(entry.sequence, request.token_ids, end);
  media_.release(request, end, entry.media);
  count_computed(entry, begin, end);
  const int32_t prompt = request.num_prompt_tokens;
  store_in_files(entry, begin < prompt && prompt <= end);
  const int32_t forks_at = request.num_prompt_tokens - (stops_for_forks_ ? 1 : 0);
  if (!fork_waiters_.empty() && end >= forks_at) release_fork_waiters(request.id);
  if (request.kind == RequestKind::kPool && end == request.num_tokens())
    update.finished = RequestStatus::kFinishedLength;
  if (update.finished) retire(entry, *update.finished);
  updates_.push_back(std::move(update));
}

// As many tokens as the step may bring, and each but the last one was a draft: what was computed
// behind another token is worthless.
Status Scheduler::Impl::check_samples(const Entry& entry, const Flight& flight,
                                      std::span<const TokenId> token_ids) const {
  const auto num_sampled = static_cast<int32_t>(token_ids.size());
  if (num_sampled > flight.num_samples || (num_sampled == 0) != (flight.num_samples == 0)) {
    return internal_error("request {}: expected {} sampled tokens, got {}", entry.request.id.value,
                          flight.num_samples > 1 ? fmt::format("1 to {}", flight.num_samples)
                                                 : fmt::format("{}", flight.num_samples),
                          num_sampled);
  }
  for (size_t i = 0; i + 1 < token_ids.size(); ++i) {
    if (token_ids[i] != entry.drafts[i]) {
      return internal_error("request {}: tokens behind {}, where {} was drafted",
                            entry.request.id.value, token_ids[i], entry.drafts[i]);
    }
  }
  return {};
}

void Scheduler::Impl::append_tokens(Entry& entry, std::span<const TokenId> token_ids,
                                    RequestUpdate& update) {
  Request& request = entry.request;
  size_t num_appended = 0;
  for (const TokenId token_id : token_ids) {
    request.token_ids.push_back(token_id);
    ++num_appended;
    const StopDecision decision = check_stop(request, config_.max_model_len);
    if (!decision.finished) continue;
    update.finished = decision.finished;
    update.stop_token_id = decision.stop_token_id;
    break;
  }
  update.new_token_ids = token_ids.first(num_appended);
  stats_.num_generated_tokens += static_cast<int64_t>(num_appended);
}

void Scheduler::Impl::count_computed(Entry& entry, int32_t begin, int32_t end) {
  if (begin >= entry.num_tokens_seen && begin >= entry.request.num_prompt_tokens) {  // a decode
    entry.num_tokens_seen = end;
    return;
  }
  const int32_t recomputed_end = std::min(end, entry.num_tokens_seen);
  stats_.num_recomputed_tokens += std::max(0, recomputed_end - begin);
  const int32_t fresh = std::max(begin, entry.num_tokens_seen);
  stats_.num_prompt_tokens_computed +=
      std::max(0, std::min(end, entry.request.num_prompt_tokens) - fresh);
  entry.num_tokens_seen = std::max(entry.num_tokens_seen, end);
}

// An executor that leaves a scheduled request out must not leave it hanging.
void Scheduler::Impl::fail_unanswered(uint64_t step_id) {
  for (Entry* entry : running_) {
    if (!entry->in_flight() || entry->flights[0].step_id != step_id) continue;
    end_with_error(
        *entry, nullptr,
        internal_error("request {}: the executor gave no result", entry->request.id.value));
  }
}

void Scheduler::Impl::end_with_error(Entry& entry, const RequestStepResult* result, Status status) {
  RequestUpdate& update = updates_.emplace_back();
  update.id = entry.request.id;
  update.result = result;
  update.finished = RequestStatus::kFinishedError;
  update.status = std::move(status);
  if (entry.is_beam()) return retire_beams(*entry.beam_leader, RequestStatus::kFinishedError);
  retire(entry, RequestStatus::kFinishedError);
}

}  // namespace quire
