// Scheduler: drafts. What a step has left goes to guesses of the tokens behind the known ones, as
// far as they pay.
#include <algorithm>

#include "base/check.h"
#include "sched/scheduler_impl.h"

namespace quire {

void Scheduler::Impl::grant_drafts() {
  if (drafter_ == nullptr) return;
  const DraftStep step = collect_draft_queries();
  if (draft_queries_.empty() || step.max_drafts < 1 || !draft_planner_.could_pay(step)) return;
  const DraftingCost* cost = drafter_->cost();
  if (cost == nullptr) {
    drafter_->propose(draft_queries_);
  } else {
    for (DraftQuery& query : draft_queries_) query.draft_class = cost->draft_class;
  }
  draft_candidates_.clear();
  for (size_t i = 0; i < draft_queries_.size(); ++i) {
    const DraftQuery& query = draft_queries_[i];
    const int32_t num_drafts =
        cost == nullptr ? static_cast<int32_t>(query.token_ids.size()) : query.max_drafts;
    QUIRE_CHECK(num_drafts <= query.max_drafts, "{} drafts, at most {}", num_drafts,
                query.max_drafts);
    draft_candidates_.push_back({.history = &draft_entries_[i]->draft_history,
                                 .draft_class = query.draft_class,
                                 .num_drafts = num_drafts});
  }
  draft_planner_.choose(draft_candidates_, step, cost);
  if (cost != nullptr) propose_chosen();
  place_drafts();
}

// Those that may have drafts, with the most that would be of use to each, and what is planned
// without them.
DraftStep Scheduler::Impl::collect_draft_queries() {
  draft_queries_.clear();
  draft_entries_.clear();
  DraftStep step{.max_drafts = budget_};
  int64_t context = 0;
  for (Entry* entry : running_) {
    if (entry->num_granted == 0) continue;
    step.num_rows += entry->num_granted;
    step.num_tokens +=
        samples(entry->request.kind) && entry->num_granted == entry->num_new_tokens();
    if (decodes(*entry)) context += entry->num_tokens();
    const int32_t most = most_drafts(*entry);
    if (most <= 0) {
      ++step.num_bystanders;
      continue;
    }
    draft_queries_.push_back({.request = &entry->request, .max_drafts = most});
    draft_entries_.push_back(entry);
  }
  if (config_.step_time.predicted.known()) {
    step.fixed_us = config_.step_time.predicted.context_us * static_cast<double>(context);
  }
  if (step_time_.bounded) {
    step.max_drafts = std::min(step.max_drafts, step_times_.tokens_within(step_time_.prompt_us, 0));
  }
  return step;
}

// Drafts that would be of use: not beyond the request's last token, which is never computed.
int32_t Scheduler::Impl::most_drafts(const Entry& entry) const {
  const Request& request = entry.request;
  if (entry.num_granted != 1 || entry.in_flight() || !decodes(entry)) return 0;
  if (request.kind == RequestKind::kBeam) return 0;
  const int32_t configured = config_.num_speculative_tokens;
  return std::min({request.params->num_speculative_tokens.value_or(configured), configured, budget_,
                   entry.max_kv_tokens - request.num_tokens()});
}

// Drafts that cost something are made once it is known how many.
void Scheduler::Impl::propose_chosen() {
  size_t num_chosen = 0;
  for (size_t i = 0; i < draft_queries_.size(); ++i) {
    note_idle(*draft_entries_[i], draft_candidates_[i]);
    if (draft_candidates_[i].num_chosen == 0) continue;
    draft_queries_[num_chosen] = draft_queries_[i];
    draft_queries_[num_chosen].max_drafts = draft_candidates_[i].num_chosen;
    draft_entries_[num_chosen] = draft_entries_[i];
    ++num_chosen;
  }
  draft_queries_.resize(num_chosen);
  draft_entries_.resize(num_chosen);
  draft_candidates_.resize(num_chosen);
  if (num_chosen > 0) drafter_->propose(draft_queries_);
  for (size_t i = 0; i < num_chosen; ++i) {
    QUIRE_CHECK(std::ssize(draft_queries_[i].token_ids) <= draft_queries_[i].max_drafts,
                "{} drafts, at most {}", draft_queries_[i].token_ids.size(),
                draft_queries_[i].max_drafts);
    draft_candidates_[i].num_chosen = static_cast<int32_t>(draft_queries_[i].token_ids.size());
  }
}

void Scheduler::Impl::note_idle(Entry& entry, const DraftCandidate& candidate) {
  int32_t& num_idle = entry.draft_history.num_idle;
  num_idle = candidate.num_chosen > 0 ? 0 : num_idle + (candidate.num_drafts > 0);
}

// Nobody is preempted for tokens that may come to nothing, nor will be: blocks for a step of every
// running request stay free.
void Scheduler::Impl::place_drafts() {
  std::optional<BlockCounts> num_reserved_blocks;
  for (size_t i = 0; i < draft_queries_.size(); ++i) {
    const DraftQuery& query = draft_queries_[i];
    Entry& entry = *draft_entries_[i];
    if (drafter_->cost() == nullptr) note_idle(entry, draft_candidates_[i]);
    if (draft_candidates_[i].num_chosen == 0) continue;
    if (!num_reserved_blocks) {
      num_reserved_blocks = owed_blocks(false) + kv_.tables().a_block_each() * std::ssize(running_);
    }
    const int32_t n = room_for_drafts(entry, draft_candidates_[i].num_chosen, *num_reserved_blocks);
    entry.drafts.assign(query.token_ids.begin(), query.token_ids.begin() + n);
    entry.draft_class = query.draft_class;
    entry.num_granted += n;
    budget_ -= n;
    if (step_time_.bounded) {
      step_time_.prompt_us -=
          step_times_.prompt_factor() * step_times_.prompt_us(n, entry.request.num_tokens());
    }
  }
}

int32_t Scheduler::Impl::room_for_drafts(Entry& entry, int32_t num_drafts,
                                         const BlockCounts& num_reserved_blocks) {
  for (; num_drafts > 0; --num_drafts) {
    const AllocateArgs args{.tokens = entry.request.token_ids,
                            .num_computed_tokens = entry.next_position(),
                            .num_new_tokens = 1 + num_drafts,
                            .num_reserved_blocks = num_reserved_blocks};
    if (kv_.tables().allocate(entry.sequence, args)) break;
  }
  return num_drafts;
}

}  // namespace quire
