#include "draft/draft_planner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "base/check.h"

namespace quire {
namespace {

RowTimes row_times(std::vector<RowTimes::Point> points) {
  auto times = RowTimes::create(std::move(points));
  QUIRE_CHECK(times.ok(), "{}", times.status().message());
  return *times;
}

TEST(RowTimes, AreLinearBetweenPointsAndBeyond) {
  const RowTimes times = row_times({{1, 10}, {3, 20}, {7, 16}, {9, 20}});
  EXPECT_EQ(times.us(0), 0);
  EXPECT_EQ(times.us(1), 10);
  EXPECT_EQ(times.us(2), 15);
  EXPECT_EQ(times.us(3), 20);
  EXPECT_EQ(times.us(5), 18);
  EXPECT_EQ(times.us(9), 20);
  EXPECT_EQ(times.us(12), 26);
  EXPECT_EQ(row_times({{1, 9}, {2, 5}}).us(4), 5);  // more rows are not taken to need less forever
}

TEST(RowTimes, ErrorsSayWhatWasExpected) {
  EXPECT_FALSE(RowTimes::create({{1, 5}}).ok());
  EXPECT_FALSE(RowTimes::create({{1, 5}, {1, 6}}).ok());
  EXPECT_FALSE(RowTimes::create({{0, 5}, {1, 6}}).ok());
  EXPECT_FALSE(RowTimes::create({{1, 5}, {2, 0}}).ok());
  EXPECT_FALSE(RowTimes::create({{1, 5}, {2, NAN}}).ok());
}

class DraftPlannerTest : public ::testing::Test {
 protected:
  int32_t pick(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(rng_);
  }

  RowTimes random_times() {
    std::vector<RowTimes::Point> points;
    double us = pick(20, 200);
    for (int32_t rows = 1; rows < 20; rows += pick(1, 4)) {
      points.push_back({rows, us});
      us = std::max(1.0, us + pick(-10, 60));
    }
    points.push_back({20, us});
    return row_times(std::move(points));
  }

  // Trains the planner and the histories.
  void teach(DraftPlanner& planner, std::span<DraftHistory> histories) {
    for (int32_t i = pick(0, 200); i > 0; --i) {
      const int32_t num_drafts = pick(1, 4);
      const DraftClass draft_class{.source = pick(0, 2), .prior = 0.5};
      const int32_t num_accepted =
          std::min(num_drafts, pick(0, 2) < draft_class.source ? 0 : pick(0, 4));
      planner.on_verified(histories[static_cast<size_t>(pick(0, 99)) % histories.size()],
                          draft_class, num_drafts, num_accepted);
    }
  }

  std::mt19937 rng_{7};
};

// Returns the tokens per time of the chosen counts, from their definition.
double rate(const DraftPlanner& planner, std::span<const DraftCandidate> candidates,
            const std::vector<int32_t>& counts, const DraftStep& step, const DraftingCost* cost) {
  double num_tokens = step.num_tokens;
  int32_t num_drafts = 0;
  for (size_t c = 0; c < counts.size(); ++c) {
    double survival = 1;
    for (int32_t i = 0; i < counts[c]; ++i) {
      survival *= planner.acceptance(candidates[c], i);
      num_tokens += survival;
    }
    num_drafts += counts[c];
  }
  double us = step.fixed_us + planner.row_times().us(step.num_rows + num_drafts);
  for (int32_t i = 0; cost != nullptr; ++i) {
    const auto n = std::count_if(counts.begin(), counts.end(), [i](int32_t k) { return k > i; });
    if (n == 0) break;
    us += cost->step_times.us(static_cast<int32_t>(n));
  }
  return num_tokens / us;
}

void for_all_counts(std::span<const DraftCandidate> candidates, int32_t max_drafts,
                    const std::function<void(const std::vector<int32_t>&)>& visit) {
  std::vector<int32_t> counts(candidates.size(), 0);
  while (true) {
    int32_t sum = 0;
    for (const int32_t n : counts) sum += n;
    if (sum <= max_drafts) visit(counts);
    size_t c = 0;
    while (c < counts.size() && counts[c] == candidates[c].num_drafts) counts[c++] = 0;
    if (c == counts.size()) return;
    ++counts[c];
  }
}

// Compares with all counts; with more than one request, with all that delay no request too much.
// Zero drafts are right if the gain is too small.
TEST_F(DraftPlannerTest, NoOtherCountsBringMoreTokensPerTime) {
  int32_t num_with_drafts = 0;
  int32_t num_without = 0;
  for (int round = 0; round < 1500; ++round) {
    DraftPlanner planner({.row_times = random_times(), .limits = {}});
    std::vector<DraftHistory> histories(static_cast<size_t>(pick(1, 4)));
    teach(planner, histories);
    std::vector<DraftCandidate> candidates;
    for (DraftHistory& history : histories) {
      candidates.push_back({.history = &history,
                            .draft_class = {.source = pick(0, 2), .prior = 0.1 * pick(1, 9)},
                            .num_drafts = pick(0, 4)});
    }
    const auto n = static_cast<int32_t>(candidates.size());
    const bool delays_somebody = pick(0, 1) == 0;
    const DraftStep step{.num_rows = n + (delays_somebody ? pick(1, 5) : 0),
                         .num_tokens = n,
                         .num_bystanders = delays_somebody ? 1 : 0,
                         .fixed_us = 1.0 * pick(0, 50),
                         .max_drafts = pick(0, 12)};
    planner.choose(candidates, step);
    std::vector<int32_t> chosen;
    int32_t num_chosen = 0;
    for (const DraftCandidate& candidate : candidates) {
      ASSERT_LE(candidate.num_chosen, candidate.num_drafts);
      chosen.push_back(candidate.num_chosen);
      num_chosen += candidate.num_chosen;
    }
    ASSERT_LE(num_chosen, std::max(0, step.max_drafts));
    ++(num_chosen > 0 ? num_with_drafts : num_without);
    const RowTimes& times = planner.row_times();
    const double base_us = step.fixed_us + times.us(step.num_rows);
    const double us = step.fixed_us + times.us(step.num_rows + num_chosen);
    for (size_t c = 0; c < candidates.size(); ++c) {
      const double gain = delays_somebody
                              ? 0
                              : rate(planner, {&candidates[c], 1}, {chosen[c]}, step, nullptr) *
                                        (step.fixed_us + times.us(step.num_rows + chosen[c])) -
                                    step.num_tokens;
      ASSERT_LE(us, DraftPlanner::kMostDelay * (1 + gain) * base_us * (1 + 1e-9));
    }
    const double none = step.num_tokens / base_us;
    const double got = rate(planner, candidates, chosen, step, nullptr);
    if (num_chosen > 0) {
      ASSERT_GE(got, DraftPlanner::kLeastGain * none);
    }
    // The planner ignores drafts that are rarely accepted; in total they gain less than this.
    const double slack = 1.0 + 0.02 * 12 / step.num_tokens;
    for_all_counts(candidates, step.max_drafts, [&](const std::vector<int32_t>& counts) {
      const int32_t sum = std::accumulate(counts.begin(), counts.end(), 0);
      const double us = step.fixed_us + times.us(step.num_rows + sum);
      // Beyond this delay every request must gain, which the planner does not search for.
      if ((delays_somebody || n > 1) && us > DraftPlanner::kMostDelay * base_us) return;
      EXPECT_LE(rate(planner, candidates, counts, step, nullptr),
                slack * std::max(got, DraftPlanner::kLeastGain * none))
          << "round " << round;
    });
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(num_with_drafts, 200);
  EXPECT_GT(num_without, 100);
}

// With one request, the counts are the prefixes of its drafts, so that the choice is exactly the
// best one.
TEST_F(DraftPlannerTest, WeighsWhatDraftsCostToMake) {
  for (int round = 0; round < 500; ++round) {
    DraftPlanner planner({.row_times = random_times(), .limits = {}});
    std::vector<DraftHistory> histories(1);
    teach(planner, histories);
    const DraftingCost cost{.step_times = row_times({{1, 1.0 * pick(1, 60)}, {20, 60}}),
                            .draft_class = {.source = 1, .prior = 0.8}};
    std::vector<DraftCandidate> candidates = {
        {.history = histories.data(), .draft_class = cost.draft_class, .num_drafts = pick(1, 6)}};
    const DraftStep step{.num_rows = 1, .num_tokens = 1, .max_drafts = 8};
    planner.choose(candidates, step, &cost);
    const double none = rate(planner, candidates, {0}, step, &cost);
    const double got = rate(planner, candidates, {candidates[0].num_chosen}, step, &cost);
    if (candidates[0].num_chosen > 0) {
      ASSERT_GE(got, DraftPlanner::kLeastGain * none);
    }
    for (int32_t n = 1; n <= candidates[0].num_drafts; ++n) {
      ASSERT_LE(rate(planner, candidates, {n}, step, &cost),
                1.02 * std::max(got, DraftPlanner::kLeastGain * none));
    }
  }
}

TEST_F(DraftPlannerTest, LearnsWhatComesOut) {
  DraftPlanner planner({.row_times = row_times({{1, 100}, {2, 110}, {20, 290}}), .limits = {}});
  DraftHistory good;
  DraftHistory bad;
  const DraftClass sure{.source = 3, .prior = 0.5};
  const DraftClass unsure{.source = 4, .prior = 0.5};
  for (int i = 0; i < 64; ++i) {
    planner.on_verified(good, sure, 4, 4);
    planner.on_verified(bad, unsure, 4, 0);
  }
  const DraftCandidate with_good{.history = &good, .draft_class = sure, .num_drafts = 8};
  const DraftCandidate with_bad{.history = &bad, .draft_class = unsure, .num_drafts = 8};
  EXPECT_GT(planner.acceptance(with_good, 0), 0.9);
  EXPECT_LT(planner.acceptance(with_bad, 0), 0.1);
  std::vector<DraftCandidate> candidates = {with_good};
  planner.choose(candidates, {.num_rows = 1, .num_tokens = 1, .max_drafts = 16});
  EXPECT_GE(candidates[0].num_chosen, 5);
  candidates = {with_bad, with_good};
  planner.choose(candidates, {.num_rows = 2, .num_tokens = 2, .max_drafts = 16});
  EXPECT_EQ(candidates[0].num_chosen, 0);
  EXPECT_EQ(candidates[1].num_chosen, 2);  // one more would delay the other by more than 1.25
}

TEST_F(DraftPlannerTest, ProbesARequestWhoseDraftsDoNotPay) {
  DraftPlanner planner({.row_times = row_times({{1, 100}, {2, 115}}), .limits = {}});
  DraftHistory history;
  const DraftClass draft_class{.source = 0, .prior = 0.05};
  std::vector<DraftCandidate> candidates = {
      {.history = &history, .draft_class = draft_class, .num_drafts = 4}};
  const DraftStep step{.num_rows = 1, .num_tokens = 1, .max_drafts = 16};
  planner.choose(candidates, step);
  EXPECT_EQ(candidates[0].num_chosen, 0);
  history.num_idle = DraftPlanner::kStepsBetweenProbes;
  planner.choose(candidates, step);
  EXPECT_EQ(candidates[0].num_chosen, 1);
}

TEST_F(DraftPlannerTest, DoesNotAskWhereNothingCanPay) {
  const DraftPlanner planner(
      {.row_times = row_times({{1, 100}, {2, 200}, {8, 900}}), .limits = {}});
  EXPECT_FALSE(planner.could_pay({.num_rows = 1, .num_tokens = 1, .max_drafts = 4}));
  const DraftPlanner cheap({.row_times = row_times({{1, 100}, {2, 190}}), .limits = {}});
  EXPECT_TRUE(cheap.could_pay({.num_rows = 1, .num_tokens = 1, .max_drafts = 4}));
}

TEST_F(DraftPlannerTest, WithoutTimesEveryoneGetsAllAndLimitsHold) {
  DraftPlanner planner({.row_times = {}, .limits = {{2, 3}, {3, 0}}});
  DraftHistory history;
  const DraftCandidate candidate{.history = &history, .num_drafts = 5};
  std::vector<DraftCandidate> candidates = {candidate};
  planner.choose(candidates, {.num_rows = 1, .num_tokens = 1, .max_drafts = 16});
  EXPECT_EQ(candidates[0].num_chosen, 5);
  candidates = {candidate, candidate};
  planner.choose(candidates, {.num_rows = 2, .num_tokens = 2, .max_drafts = 4});
  EXPECT_EQ(candidates[0].num_chosen, 3);
  EXPECT_EQ(candidates[1].num_chosen, 1);
  candidates = {candidate, candidate, candidate};
  planner.choose(candidates, {.num_rows = 3, .num_tokens = 3, .max_drafts = 16});
  EXPECT_EQ(candidates[2].num_chosen, 0);
}

}  // namespace
}  // namespace quire
