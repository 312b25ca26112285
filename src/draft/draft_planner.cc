#include "draft/draft_planner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

constexpr double kPriorDrafts = 8;  // a prior counts as much as this many drafts
// The average of all requests counts as this many drafts in the estimate for one request.
constexpr double kHistoryDrafts = 3;
constexpr double kMemoryDrafts = 256;    // a source's counts average over about this many drafts
constexpr double kHistoryMemory = 0.85;  // per step: the weight that remains of older drafts
constexpr double kMostAcceptance = 0.98;
constexpr double kLeastSurvival = 0.02;  // drafts less likely than this never pay

}  // namespace

DraftPlanner::DraftPlanner(DraftPlannerOptions options) : options_(std::move(options)) {}

double DraftPlanner::estimate(const DraftClass& draft_class, int32_t index) const {
  const Count& count = counts_[static_cast<size_t>(draft_class.source)]
                              [static_cast<size_t>(std::min(index, kMaxIndex - 1))];
  return (count.num_accepted + kPriorDrafts * draft_class.prior) / (count.num_tried + kPriorDrafts);
}

double DraftPlanner::acceptance(const DraftCandidate& candidate, int32_t index) const {
  const DraftHistory& history = *candidate.history;
  const double factor =
      (history.num_accepted + kHistoryDrafts) / (history.num_expected + kHistoryDrafts);
  return std::min(kMostAcceptance, factor * estimate(candidate.draft_class, index));
}

void DraftPlanner::on_verified(DraftHistory& history, const DraftClass& draft_class,
                               int32_t num_drafts, int32_t num_accepted) {
  const DraftSource source = draft_class.source;
  QUIRE_CHECK(source >= 0 && source < kMaxDraftSources, "draft source {}", source);
  history.num_accepted *= kHistoryMemory;
  history.num_expected *= kHistoryMemory;
  // Drafts after a refused one tell nothing.
  for (int32_t i = 0; i < std::min(num_drafts, num_accepted + 1); ++i) {
    history.num_expected += estimate(draft_class, i);
    history.num_accepted += i < num_accepted;
    Count& count =
        counts_[static_cast<size_t>(source)][static_cast<size_t>(std::min(i, kMaxIndex - 1))];
    if (count.num_tried >= kMemoryDrafts) {
      count.num_accepted *= (kMemoryDrafts - 1) / count.num_tried;
      count.num_tried = kMemoryDrafts - 1;
    }
    count.num_tried += 1;
    count.num_accepted += i < num_accepted;
  }
}

double DraftPlanner::step_us(const DraftStep& step, int32_t num_drafts) const {
  return step.fixed_us + options_.row_times.us(step.num_rows + num_drafts);
}

bool DraftPlanner::could_pay(const DraftStep& step) const {
  if (!options_.row_times.known()) return true;
  const double rate = kLeastGain * step.num_tokens / step_us(step, 0);
  for (int32_t n = 1; n <= step.max_drafts; ++n) {
    if ((step.num_tokens + n) / step_us(step, n) > rate) return true;
  }
  return false;
}

void DraftPlanner::choose(std::span<DraftCandidate> candidates, const DraftStep& step,
                          const DraftingCost* cost) {
  for (DraftCandidate& candidate : candidates) {
    candidate.num_chosen = 0;
    for (const DraftPlannerOptions::Limit& limit : options_.limits) {
      if (std::ssize(candidates) >= limit.num_requests)
        candidate.num_drafts = std::min(candidate.num_drafts, limit.max_drafts);
    }
  }
  if (!options_.row_times.known()) return give_all(candidates, step.max_drafts);
  collect(candidates);
  const size_t count = best_count(step, cost);
  for (size_t i = 0; i < count; ++i)
    ++candidates[static_cast<size_t>(choices_[i].candidate)].num_chosen;
  if (count == 0) probe(candidates, step);
}

// Gives every candidate all its drafts, in order, as long as there is room.
void DraftPlanner::give_all(std::span<DraftCandidate> candidates, int32_t max_drafts) const {
  for (DraftCandidate& candidate : candidates) {
    candidate.num_chosen = std::min(candidate.num_drafts, max_drafts);
    max_drafts -= candidate.num_chosen;
  }
}

// Lists all drafts, the likeliest ones first. A draft is never likelier than the one before it, so
// that the first options always are complete prefixes of the requests' drafts.
void DraftPlanner::collect(std::span<const DraftCandidate> candidates) {
  choices_.clear();
  gains_.assign(candidates.size(), 0);
  for (size_t c = 0; c < candidates.size(); ++c) {
    double survival = 1;
    for (int32_t i = 0; i < candidates[c].num_drafts; ++i) {
      survival *= acceptance(candidates[c], i);
      if (survival < kLeastSurvival) break;
      choices_.push_back({.survival = survival, .candidate = static_cast<int32_t>(c), .index = i});
    }
  }
  std::sort(choices_.begin(), choices_.end(), [](const Option& a, const Option& b) {
    if (a.survival != b.survival) return a.survival > b.survival;
    return std::pair(a.index, a.candidate) < std::pair(b.index, b.candidate);
  });
}

// Returns how many of choices_ give the most tokens per time. It tries all counts, because times
// grow in steps.
size_t DraftPlanner::best_count(const DraftStep& step, const DraftingCost* cost) {
  num_at_index_.assign(num_at_index_.size(), 0);
  const double base_us = step_us(step, 0);
  double best_rate = kLeastGain * step.num_tokens / base_us;
  size_t best = 0;
  double num_tokens = step.num_tokens;
  double drafting_us = 0;
  const size_t most = std::min(choices_.size(), static_cast<size_t>(std::max(0, step.max_drafts)));
  for (size_t i = 0; i < most; ++i) {
    num_tokens += choices_[i].survival;
    gains_[static_cast<size_t>(choices_[i].candidate)] += choices_[i].survival;
    if (cost != nullptr) {
      const auto index = static_cast<size_t>(choices_[i].index);
      if (num_at_index_.size() <= index) num_at_index_.resize(index + 1, 0);
      const int32_t n = num_at_index_[index]++;
      drafting_us += cost->step_times.us(n + 1) - cost->step_times.us(n);
    }
    const double us = step_us(step, static_cast<int32_t>(i) + 1) + drafting_us;
    if (num_tokens / us > best_rate && is_fair(step, us / base_us)) {
      best_rate = num_tokens / us;
      best = i + 1;
    }
  }
  return best;
}

// Returns whether no request gets its tokens slower by more than kMostDelay if the step takes
// `delay` times as long.
bool DraftPlanner::is_fair(const DraftStep& step, double delay) const {
  if (delay <= kMostDelay) return true;
  if (step.num_bystanders > 0) return false;
  return delay <= kMostDelay * (1 + *std::min_element(gains_.begin(), gains_.end()));
}

void DraftPlanner::probe(std::span<DraftCandidate> candidates, const DraftStep& step) const {
  if (step.max_drafts < 1 || step_us(step, 1) > kMostDelay * step_us(step, 0)) return;
  for (DraftCandidate& candidate : candidates) {
    if (candidate.num_drafts < 1 || candidate.history->num_idle < kStepsBetweenProbes) continue;
    candidate.num_chosen = 1;
    return;
  }
}

}  // namespace quire
