#include "sched/grants/draft_grants.h"

#include <algorithm>
#include <optional>

#include "base/check.h"

namespace quire {
namespace {

void note_idle(Entry& entry, const DraftCandidate& candidate) {
  int32_t& num_idle = entry.draft_history.num_idle;
  num_idle = candidate.num_chosen > 0 ? 0 : num_idle + (candidate.num_drafts > 0);
}

}  // namespace

DraftGrants::DraftGrants(SchedulerState& state, StepBudget& budget)
    : state_(state), budget_(budget), planner_(state.config.draft_planner) {
  const auto most = static_cast<size_t>(state.config.max_running());
  queries_.reserve(most);
  entries_.reserve(most);
  candidates_.reserve(most);
}

void DraftGrants::grant() {
  Drafter* const drafter = state_.drafter;
  if (drafter == nullptr) return;
  const DraftStep step = collect_queries();
  if (queries_.empty() || step.max_drafts < 1 || !planner_.could_pay(step)) return;
  const DraftingCost* cost = drafter->cost();
  if (cost == nullptr) {
    drafter->propose(queries_);
  } else {
    for (DraftQuery& query : queries_) query.draft_class = cost->draft_class;
  }
  collect_candidates(cost);
  planner_.choose(candidates_, step, cost);
  if (cost != nullptr) propose_chosen();
  place();
}

// Collects the requests that may have drafts, with the most drafts that are of use to each. Returns
// what is planned without drafts.
DraftStep DraftGrants::collect_queries() {
  queries_.clear();
  entries_.clear();
  DraftStep step{.max_drafts = budget_.num_tokens};
  int64_t context = 0;
  for (Entry* entry : state_.roster.running()) {
    if (entry->num_granted == 0) continue;
    step.num_rows += entry->num_granted;
    step.num_tokens +=
        samples(entry->request.kind) && entry->num_granted == entry->num_new_tokens();
    if (entry->decodes()) context += entry->num_tokens();
    const int32_t most = most_drafts(*entry);
    if (most <= 0) {
      ++step.num_bystanders;
      continue;
    }
    queries_.push_back({.request = &entry->request, .max_drafts = most});
    entries_.push_back(entry);
  }
  const StepTimeTable& predicted = state_.config.step_time.predicted;
  if (predicted.known()) step.fixed_us = predicted.context_us * static_cast<double>(context);
  if (budget_.time.is_bounded())
    step.max_drafts = std::min(step.max_drafts, budget_.time.num_tokens_left());
  return step;
}

// Returns the most drafts that are of use: none beyond the request's last token, which is never
// computed.
int32_t DraftGrants::most_drafts(const Entry& entry) const {
  const Request& request = entry.request;
  if (entry.num_granted != 1 || entry.in_flight() || !entry.decodes()) return 0;
  if (request.kind == RequestKind::kBeam) return 0;
  const int32_t configured = state_.config.num_speculative_tokens;
  return std::min({request.params->num_speculative_tokens.value_or(configured), configured,
                   budget_.num_tokens, entry.max_kv_tokens - request.num_tokens()});
}

void DraftGrants::collect_candidates(const DraftingCost* cost) {
  candidates_.clear();
  for (size_t i = 0; i < queries_.size(); ++i) {
    const DraftQuery& query = queries_[i];
    const int32_t num_drafts =
        cost == nullptr ? static_cast<int32_t>(query.token_ids.size()) : query.max_drafts;
    QUIRE_CHECK(num_drafts <= query.max_drafts, "{} drafts, at most {}", num_drafts,
                query.max_drafts);
    candidates_.push_back({.history = &entries_[i]->draft_history,
                           .draft_class = query.draft_class,
                           .num_drafts = num_drafts});
  }
}

// Proposes drafts that cost something, once it is known how many are wanted.
void DraftGrants::propose_chosen() {
  size_t num_chosen = 0;
  for (size_t i = 0; i < queries_.size(); ++i) {
    note_idle(*entries_[i], candidates_[i]);
    if (candidates_[i].num_chosen == 0) continue;
    queries_[num_chosen] = queries_[i];
    queries_[num_chosen].max_drafts = candidates_[i].num_chosen;
    entries_[num_chosen] = entries_[i];
    ++num_chosen;
  }
  queries_.resize(num_chosen);
  entries_.resize(num_chosen);
  candidates_.resize(num_chosen);
  if (num_chosen > 0) state_.drafter->propose(queries_);
  for (size_t i = 0; i < num_chosen; ++i) {
    QUIRE_CHECK(std::ssize(queries_[i].token_ids) <= queries_[i].max_drafts,
                "{} drafts, at most {}", queries_[i].token_ids.size(), queries_[i].max_drafts);
    candidates_[i].num_chosen = static_cast<int32_t>(queries_[i].token_ids.size());
  }
}

// Places the drafts. Nobody is or will be preempted for tokens that may be wrong: blocks for a step
// of every running request stay free.
void DraftGrants::place() {
  std::optional<BlockCounts> num_reserved_blocks;
  for (size_t i = 0; i < queries_.size(); ++i) {
    const DraftQuery& query = queries_[i];
    Entry& entry = *entries_[i];
    if (state_.drafter->cost() == nullptr) note_idle(entry, candidates_[i]);
    if (candidates_[i].num_chosen == 0) continue;
    if (!num_reserved_blocks) {
      num_reserved_blocks =
          budget_.promises.sum(/*hard_only=*/false) +
          state_.kv.tables().sizing().a_block_each() * state_.roster.num_running();
    }
    const int32_t n = room_for(entry, candidates_[i].num_chosen, *num_reserved_blocks);
    entry.drafts.assign(query.token_ids.begin(), query.token_ids.begin() + n);
    entry.draft_class = query.draft_class;
    budget_.grant_drafts(entry, n);
  }
}

int32_t DraftGrants::room_for(Entry& entry, int32_t num_drafts,
                              const BlockCounts& num_reserved_blocks) {
  for (; num_drafts > 0; --num_drafts) {
    const AllocateArgs args{.tokens = entry.request.token_ids,
                            .num_computed_tokens = entry.next_position(),
                            .num_new_tokens = 1 + num_drafts,
                            .num_reserved_blocks = num_reserved_blocks};
    if (state_.kv.tables().allocate(entry.sequence, args)) break;
  }
  return num_drafts;
}

}  // namespace quire
