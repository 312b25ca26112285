#include "sample/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "device/isa.h"
#include "kernels/cpu/sampling/vector_math.h"

namespace quire {
namespace {

std::vector<float> random_row(std::mt19937& rng, size_t size, int distinct) {
  std::vector<float> row(size);
  for (float& x : row) {
    x = static_cast<float>(static_cast<int>(rng() % static_cast<uint32_t>(distinct)) -
                           distinct / 2) /
        8;
    if (rng() % 50 == 0) x = -std::numeric_limits<float>::infinity();
  }
  return row;
}

std::vector<Candidate> sorted(const std::vector<float>& row) {
  std::vector<Candidate> all;
  for (size_t i = 0; i < row.size(); ++i) all.push_back({row[i], static_cast<TokenId>(i)});
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.value > b.value; });
  return all;
}

TEST(Selection, TopMatchesAStableSortWithTies) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 rng(seed);
    const auto row = random_row(rng, 1 + rng() % 3000, 2 + static_cast<int>(rng() % 500));
    const auto n = static_cast<int32_t>(1 + rng() % (row.size() + 2));
    RowScanner scanner(best_isa());
    const ScannedRow scanned = scanner.scan(row);
    std::vector<Candidate> top;
    select_top(scanned, n, top);
    const auto expected = sorted(row);
    ASSERT_EQ(top.size(), std::min(row.size(), static_cast<size_t>(n)));
    for (size_t i = 0; i < top.size(); ++i) {
      ASSERT_EQ(top[i].token_id, expected[i].token_id) << "place " << i;
    }
    const auto k = static_cast<int32_t>(1 + rng() % row.size());
    ASSERT_EQ(kth_greatest(scanner, scanned, k, top), expected[static_cast<size_t>(k - 1)].value);
  }
}

// Rows and k for which a part of the row is read first, also where that part misleads because the
// greatest values are in the chunks that it leaves out, or only in those that it has.
TEST(Selection, KthOfLargeRowsIsExact) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 rng(seed);
    auto row = random_row(rng, 20000 + rng() % 30000, seed % 3 == 0 ? 40 : 100000);
    for (size_t i = 0; i < row.size(); ++i) {
      const bool sampled = i / kRowChunk % 32 == 0;
      if (seed % 3 == 1 && !sampled) row[i] += 1e6f;
      if (seed % 3 == 2 && sampled) row[i] += 1e6f;
    }
    RowScanner scanner(best_isa());
    const ScannedRow scanned = scanner.scan(row);
    const auto expected = sorted(row);
    std::vector<Candidate> scratch;
    for (const size_t k : {size_t{1}, size_t{256}, size_t{300 + rng() % 6000}, row.size() / 2,
                           row.size() - 1, row.size()}) {
      ASSERT_EQ(kth_greatest(scanner, scanned, static_cast<int32_t>(k), scratch),
                expected[k - 1].value)
          << k;
    }
  }
}

TEST(Selection, ZeroAndMinusZeroTie) {
  std::vector<float> row(400, -1.0f);
  row[10] = -0.0f;
  row[20] = 0.0f;
  row[30] = -0.0f;
  RowScanner scanner(best_isa());
  const ScannedRow scanned = scanner.scan(row);
  std::vector<Candidate> top;
  select_top(scanned, 2, top);
  EXPECT_EQ(top[0].token_id, 10);
  EXPECT_EQ(top[1].token_id, 20);
  select_top(scanned, 300, top);  // the other algorithm
  EXPECT_EQ(top[0].token_id, 10);
  EXPECT_EQ(top[1].token_id, 20);
  EXPECT_EQ(top[2].token_id, 30);
  EXPECT_EQ(top[3].token_id, 0);
}

TEST(Selection, MassThresholdMatchesASortedScan) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 rng(seed);
    std::vector<WeightedValue> items(1 + rng() % 500);
    double total = 0;
    for (auto& item : items) {
      // Weights are small integers, so that sums are exact in any order.
      item.value = static_cast<float>(rng() % 100);
      item.weight = static_cast<float>(rng() % 9);
      total += static_cast<double>(item.weight);
    }
    const double target = std::floor(total * static_cast<double>(rng() % 101) / 100) + 0.5;
    auto by_value = items;
    std::sort(by_value.begin(), by_value.end(),
              [](const auto& a, const auto& b) { return a.value > b.value; });
    double mass = 0;
    float expected = by_value.back().value;
    for (const auto& item : by_value) {
      mass += static_cast<double>(item.weight);
      if (mass >= target) {
        expected = item.value;
        break;
      }
    }
    ASSERT_EQ(mass_threshold(items, target), expected);
  }
}

TEST(VectorMath, ExpIsAccurateAndEndsAtZero) {
  for (float x = 0; x > -86.9f; x -= 0.0137f) {
    const double exact = std::exp(static_cast<double>(x));
    ASSERT_NEAR(static_cast<double>(exp_nonpositive(x)) / exact, 1.0, 3e-7) << x;
  }
  EXPECT_EQ(exp_nonpositive(0), 1.0f);
  EXPECT_EQ(exp_nonpositive(-88), 0.0f);
  EXPECT_EQ(exp_nonpositive(-std::numeric_limits<float>::infinity()), 0.0f);
}

}  // namespace
}  // namespace quire
