// How many drafts each request gets in a step, so that tokens come as fast as they can.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "draft/drafter.h"
#include "draft/row_times.h"

namespace quire {

// Counts what became of a request's own drafts. It is part of the scheduler's record of the
// request.
struct DraftHistory {
  double num_accepted = 0;  // of recent drafts, older ones count less
  double num_expected = 0;  // what the planner took that number to be
  int32_t num_idle = 0;     // steps since the last one with drafts, in which it might have had some
};

struct DraftCandidate {
  const DraftHistory* history = nullptr;
  DraftClass draft_class;
  int32_t num_drafts = 0;  // that it may have

  int32_t num_chosen = 0;  // the answer
};

// The step without drafts.
struct DraftStep {
  int32_t num_rows = 0;        // scheduled tokens
  int32_t num_tokens = 0;      // that it brings: requests whose next token it samples
  int32_t num_bystanders = 0;  // requests that are no candidates
  double fixed_us = 0;         // beside what its rows take: attention to long contexts
  int32_t max_drafts = 0;      // of all requests together
};

struct DraftPlannerOptions {
  RowTimes row_times;  // unknown: every candidate gets all its drafts, as far as they go
  // A limit says how many drafts a request may have while at least so many requests are candidates.
  // Limits are in ascending order; they correspond to vLLM's num_speculative_tokens_per_batch_size.
  struct Limit {
    int32_t num_requests = 0;
    int32_t max_drafts = 0;
  };
  std::vector<Limit> limits;
};

// A draft is worth the chance that it and all before it come out, and costs a row of the step. The
// counts chosen are those with the most tokens per time, over all requests together. Counting what
// came out is all that it learns; the same calls give the same counts. One thread may use it.
class DraftPlanner {
 public:
  explicit DraftPlanner(DraftPlannerOptions options);

  // Nobody is expected to get tokens slower than without drafts by more than this factor, so that
  // requests with few drafts do not pay for those with many.
  static constexpr double kMostDelay = 1.25;
  // Drafts must bring at least this much, since times and chances are estimates.
  static constexpr double kLeastGain = 1.02;
  // A request whose drafts do not pay gets one now and then, to see whether that has changed.
  static constexpr int32_t kStepsBetweenProbes = 64;

  // Whether drafts could pay if all of `max_drafts` came out.
  bool could_pay(const DraftStep& step) const;
  // Fills num_chosen. `cost` null: drafts cost nothing but their rows.
  void choose(std::span<DraftCandidate> candidates, const DraftStep& step,
              const DraftingCost* cost = nullptr);
  // Returns the estimated chance that draft `index` (from 0) comes out when those before it have.
  double acceptance(const DraftCandidate& candidate, int32_t index) const;

  // A step has verified `num_drafts` drafts of a source, of which the first `num_accepted` came out.
  void on_verified(DraftHistory& history, const DraftClass& draft_class, int32_t num_drafts,
                   int32_t num_accepted);

  void set_row_times(const RowTimes& row_times) { options_.row_times = row_times; }
  const RowTimes& row_times() const { return options_.row_times; }

 private:
  static constexpr int32_t kMaxIndex = 8;  // drafts further behind are counted with the last one
  struct Count {
    double num_tried = 0;
    double num_accepted = 0;
  };
  // A draft that may be chosen, with the chance that it comes out.
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
  std::vector<Option> choices_;        // kept for its capacity
  std::vector<int32_t> num_at_index_;  // of chosen options; the same
  std::vector<double> gains_;          // of candidates: tokens that drafts bring; the same
};

}  // namespace quire
