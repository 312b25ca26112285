#include "sched/steps/outcomes.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sched/stop_check.h"

namespace quire {
namespace {

// Returns an error unless the tokens are at most as many as the step may sample and all but the
// last were drafts: what was computed after a token that is no draft is worthless.
Status check_samples(const Entry& entry, const Flight& flight, std::span<const TokenId> token_ids) {
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

}  // namespace

std::span<const RequestUpdate> Outcomes::take(const StepResult& result) {
  updates_.clear();
  size_t num_answered = 0;
  const size_t num_finished_before = state_.roster.num_finished();
  for (size_t i = 0; i < result.requests.size(); ++i) {
    Entry* entry = match(i, result.requests[i].id, result.step_id);
    if (entry == nullptr) continue;
    apply(*entry, result.requests[i]);
    ++num_answered;
  }
  const StepPlan& plan = plans_.plan();
  const bool all_answered =
      num_answered > 0 && result.step_id == plan.step_id && num_answered == plan.scheduled.size();
  if (!all_answered) fail_unanswered(result.step_id);
  if (state_.roster.num_finished() != num_finished_before) state_.roster.compact_running();
  return updates_;
}

// Returns the entry that waits for this very result, or null. Results usually come in the plan's
// order; others are found by id.
inline Entry* Outcomes::match(size_t index, RequestId id, uint64_t step_id) {
  const std::vector<Entry*>& planned = plans_.entries();
  Entry* entry = index < planned.size() ? planned[index] : nullptr;
  if (entry == nullptr || entry->request.id != id) entry = state_.roster.find(id);
  const bool waits = entry != nullptr && entry->in_flight() && entry->flights[0].step_id == step_id;
  return waits ? entry : nullptr;
}

void Outcomes::apply(Entry& entry, const RequestStepResult& result) {
  Request& request = entry.request;
  const Flight flight = entry.flights[0];
  entry.remove_oldest_flight();
  if (!result.status.ok()) return end_with_error(entry, &result, result.status);
  Status as_planned = check_samples(entry, flight, result.sampled_token_ids);
  if (!as_planned.ok()) return end_with_error(entry, &result, std::move(as_planned));
  RequestUpdate& update = updates_.emplace_back();
  update.id = request.id;
  update.result = &result;
  update.num_drafts = static_cast<int32_t>(entry.drafts.size());
  update.drafts_from_prediction = update.num_drafts > 0 && entry.draft_class.from_prediction;
  entry.drafts.clear();
  // For a beam, the search says how it goes on.
  if (!entry.is_beam()) append_tokens(request, result.sampled_token_ids, update);
  if (update.num_drafts > 0) {
    draft_planner_.on_verified(entry.draft_history, entry.draft_class, update.num_drafts,
                               update.num_accepted_drafts);
  }
  // Tokens computed for drafts count if they are now the request's tokens. The last token is never
  // computed by the step that samples it.
  const auto num_new = static_cast<int32_t>(update.new_token_ids.size());
  advance(entry, request.num_computed_tokens + flight.num_tokens - update.num_drafts +
                     std::max(0, num_new - 1));
  if (request.kind == RequestKind::kPool && request.num_new_tokens() == 0)
    update.finished = RequestStatus::kFinishedLength;
  if (update.finished) state_.roster.retire(entry, *update.finished);
}

// Appends the sampled tokens to the request, up to one that ends it.
inline void Outcomes::append_tokens(Request& request, std::span<const TokenId> token_ids,
                                    RequestUpdate& update) {
  size_t num_appended = 0;
  for (const TokenId token_id : token_ids) {
    request.token_ids.push_back(token_id);
    ++num_appended;
    const StopDecision decision = check_stop(request, state_.config.max_model_len);
    if (!decision.finished) continue;
    update.finished = decision.finished;
    update.stop_token_id = decision.stop_token_id;
    break;
  }
  update.new_token_ids = token_ids.first(num_appended);
  update.num_accepted_drafts = std::min(static_cast<int32_t>(num_appended),
                                        std::max(0, static_cast<int32_t>(token_ids.size()) - 1));
  state_.stats.num_generated_tokens += static_cast<int64_t>(num_appended);
}

// Records that the request's tokens before `end` have been computed.
inline void Outcomes::advance(Entry& entry, int32_t end) {
  Roster& roster = state_.roster;
  Request& request = entry.request;
  const int32_t begin = request.num_computed_tokens;
  request.num_computed_tokens = end;
  state_.kv.tables().commit(entry.sequence, request.token_ids, end);
  roster.media.release(request, end, entry.media);
  count_computed(entry, begin, end);
  const int32_t prompt = request.num_prompt_tokens;
  roster.store_in_files(entry, begin < prompt && prompt <= end);
  if (end >= prompt - (state_.stops_for_forks ? 1 : 0)) roster.release_forks(request.id);
}

inline void Outcomes::count_computed(Entry& entry, int32_t begin, int32_t end) {
  if (begin >= entry.num_tokens_seen && begin >= entry.request.num_prompt_tokens) {  // a decode
    entry.num_tokens_seen = end;
    return;
  }
  const int32_t recomputed_end = std::min(end, entry.num_tokens_seen);
  state_.stats.num_recomputed_tokens += std::max(0, recomputed_end - begin);
  const int32_t fresh = std::max(begin, entry.num_tokens_seen);
  state_.stats.num_prompt_tokens_computed +=
      std::max(0, std::min(end, entry.request.num_prompt_tokens) - fresh);
  entry.num_tokens_seen = std::max(entry.num_tokens_seen, end);
}

// Ends the requests of the step that the executor gave no result for, so that they do not hang.
void Outcomes::fail_unanswered(uint64_t step_id) {
  for (Entry* entry : state_.roster.running()) {
    if (!entry->in_flight() || entry->flights[0].step_id != step_id) continue;
    end_with_error(
        *entry, nullptr,
        internal_error("request {}: the executor gave no result", entry->request.id.value));
  }
}

void Outcomes::end_with_error(Entry& entry, const RequestStepResult* result, Status status) {
  RequestUpdate& update = updates_.emplace_back();
  update.id = entry.request.id;
  update.result = result;
  update.finished = RequestStatus::kFinishedError;
  update.status = std::move(status);
  if (entry.is_beam()) return beams_.retire(*entry.beam_leader, RequestStatus::kFinishedError);
  state_.roster.retire(entry, RequestStatus::kFinishedError);
}

}  // namespace quire
