// DraftPlanner decides how many drafts each request gets in a step, so that tokens come as fast as
// possible.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "draft/drafter.h"
#include "draft/row_times.h"

namespace quire {

// Statistics of a request's own drafts, which are part of the scheduler's record of the request.
struct DraftHistory {
  double num_accepted = 0;  // of recent drafts; older ones count less
  double num_expected = 0;  // the planner's estimate of num_accepted
  int32_t num_idle = 0;     // steps since its last one with drafts, in which it could have had some
};

struct DraftCandidate {
  const DraftHistory* history = nullptr;
  DraftClass draft_class;
  int32_t num_drafts = 0;  // the most that it can have

  int32_t num_chosen = 0;  // the result
};

// The step as it is without drafts.
struct DraftStep {
  int32_t num_rows = 0;        // scheduled tokens
  int32_t num_tokens = 0;      // that the step samples: one per request whose next token it samples
  int32_t num_bystanders = 0;  // requests that are not candidates
  double fixed_us = 0;         // time that does not depend on the rows: attention to long contexts
  int32_t max_drafts = 0;      // over all requests together
};

struct DraftPlannerOptions {
  RowTimes row_times;  // unknown: every candidate gets all its drafts, as far as max_drafts allows
  // At most max_drafts drafts per request while there are at least num_requests candidates. Limits
  // are in ascending order; they correspond to vLLM's num_speculative_tokens_per_batch_size.
  struct Limit {
    int32_t num_requests = 0;
    int32_t max_drafts = 0;
  };
  std::vector<Limit> limits;
};

// The value of a draft is the probability that it and all drafts before it are accepted; its cost
// is a row of the step. The planner chooses the numbers of drafts that give the most tokens per
// time, over all requests together. It learns only from the numbers of accepted drafts, and the
// same calls give the same choices. One thread may use it.
class DraftPlanner {
 public:
  explicit DraftPlanner(DraftPlannerOptions options);

  // Drafts may slow down the tokens of no request by more than this factor, compared with a step
  // without drafts, so that requests with few drafts do not pay for those with many.
  static constexpr double kMostDelay = 1.25;
  // Drafts must raise the tokens per time by at least this factor, because times and probabilities
  // are estimates.
  static constexpr double kLeastGain = 1.02;
  // A request whose drafts do not pay gets one draft each time this many steps have passed, to see
  // whether that has changed.
  static constexpr int32_t kStepsBetweenProbes = 64;

  // Returns whether drafts would pay if all of `max_drafts` were accepted.
  bool could_pay(const DraftStep& step) const;
  // Sets num_chosen of each candidate. With a null `cost`, drafts cost nothing but their rows.
  void choose(std::span<DraftCandidate> candidates, const DraftStep& step,
              const DraftingCost* cost = nullptr);
  // Returns the estimated probability that draft `index` (from 0) is accepted if those before it
  // are.
  double acceptance(const DraftCandidate& candidate, int32_t index) const;

  // Called when a step has verified `num_drafts` drafts of a source and accepted the first
  // `num_accepted`.
  void on_verified(DraftHistory& history, const DraftClass& draft_class, int32_t num_drafts,
                   int32_t num_accepted);

  void set_row_times(const RowTimes& row_times) { options_.row_times = row_times; }
  const RowTimes& row_times() const { return options_.row_times; }

 private:
  static constexpr int32_t kMaxIndex = 8;  // later drafts are counted with the last index
  struct Count {
    double num_tried = 0;
    double num_accepted = 0;
  };
  // A draft that could be chosen, and the probability that it is accepted.
  struct Option {
    double survival = 0;
    int32_t candidate = 0;
    int32_t index = 0;
  };

  double estimate(const DraftClass& draft_class, int32_t index) const;
  double step_us(const DraftStep& step, int32_t num_drafts) const;
  void collect(std::span<const DraftCandidate> candidates);
  size_t best_count(const DraftStep& step, const DraftingCost* cost);
  bool is_fair(const DraftStep& step, double delay) const;
  void give_all(std::span<DraftCandidate> candidates, int32_t max_drafts) const;
  void probe(std::span<DraftCandidate> candidates, const DraftStep& step) const;

  DraftPlannerOptions options_;
  std::array<std::array<Count, kMaxIndex>, kMaxDraftSources> counts_{};
  std::vector<Option> choices_;        // kept for its capacity, as the next two
  std::vector<int32_t> num_at_index_;  // chosen options by index
  std::vector<double> gains_;          // by candidate: expected additional tokens
};

}  // namespace quire
