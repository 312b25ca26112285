// Compares paths with a plain search through all of them, and medians with sorted windows.
// tests/laws/speech_test.cc compares the result of a model's attention with transformers.
#include "exec/alignment/time_warp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace quire {
namespace {

std::vector<float> random_values(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Returns the greatest sum of any path from (token, row) to the end.
double best_from(const std::vector<float>& fit, const WarpShape& shape, int64_t token,
                 int64_t row) {
  if (token >= shape.num_tokens || row >= shape.num_rows)
    return -std::numeric_limits<double>::infinity();
  const double here = fit[static_cast<size_t>(token * shape.num_rows + row)];
  if (token + 1 == shape.num_tokens && row + 1 == shape.num_rows) return here;
  return here +
         std::max({best_from(fit, shape, token + 1, row + 1), best_from(fit, shape, token + 1, row),
                   best_from(fit, shape, token, row + 1)});
}

// Returns the greatest sum of a path whose tokens begin in these rows. A token goes on until the
// next one begins, and may share that row with it.
double best_with(const std::vector<float>& fit, const WarpShape& shape,
                 const std::vector<int32_t>& first) {
  double sum = 0.0;
  for (int64_t token = 0; token < shape.num_tokens; ++token) {
    const bool is_last = token + 1 == shape.num_tokens;
    const int64_t begin = first[static_cast<size_t>(token)];
    const int64_t next = is_last ? shape.num_rows : first[static_cast<size_t>(token) + 1];
    const auto at = [&](int64_t row) {
      return double{fit[static_cast<size_t>(token * shape.num_rows + row)]};
    };
    sum += at(begin);
    for (int64_t row = begin + 1; row < next; ++row) sum += at(row);
    // The next token's first row may be this one's last.
    if (!is_last && next > begin) sum += std::max(at(next), 0.0);
  }
  return sum;
}

TEST(TimeWarp, FindsTheGreatestPath) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const WarpShape shape{.num_tokens = 1 + static_cast<int64_t>(seed % 5),
                          .num_rows = 1 + static_cast<int64_t>(seed % 7)};
    const auto fit = random_values(static_cast<size_t>(shape.num_tokens * shape.num_rows), seed);
    const std::vector<int32_t> first = first_rows(fit, shape);
    ASSERT_EQ(std::ssize(first), shape.num_tokens);
    EXPECT_EQ(first.front(), 0);
    EXPECT_TRUE(std::is_sorted(first.begin(), first.end()));
    EXPECT_NEAR(best_with(fit, shape, first), best_from(fit, shape, 0, 0), 1e-4) << seed;
  }
}

TEST(TimeWarp, SharpensByTokensAndSmoothsByRows) {
  for (const int64_t num_rows : {1, 2, 3, 4, 9, 30}) {
    for (const int32_t width : {1, 3, 7}) {
      const WarpShape shape{.num_tokens = 4, .num_rows = num_rows};
      std::vector<float> weights = random_values(static_cast<size_t>(4 * num_rows), 5);
      std::vector<double> expected(weights.begin(), weights.end());
      for (int64_t row = 0; row < num_rows; ++row) {
        double mean = 0.0, squares = 0.0;
        for (int64_t token = 0; token < 4; ++token)
          mean += expected[static_cast<size_t>(token * num_rows + row)] / 4;
        for (int64_t token = 0; token < 4; ++token) {
          const double x = expected[static_cast<size_t>(token * num_rows + row)];
          squares += (x - mean) * (x - mean) / 4;
        }
        for (int64_t token = 0; token < 4; ++token) {
          double& x = expected[static_cast<size_t>(token * num_rows + row)];
          x = (x - mean) / std::sqrt(squares);
        }
      }
      sharpen_weights(weights, shape, width);
      const int64_t reach = num_rows > width / 2 ? width / 2 : 0;
      for (int64_t at = 0; at < std::ssize(weights); ++at) {
        std::vector<double> window;
        for (int64_t i = -reach; i <= reach; ++i) {
          int64_t row = std::abs(at % num_rows + i);
          if (row >= num_rows) row = 2 * (num_rows - 1) - row;
          window.push_back(expected[static_cast<size_t>(at / num_rows * num_rows + row)]);
        }
        std::sort(window.begin(), window.end());
        EXPECT_NEAR(weights[static_cast<size_t>(at)], window[static_cast<size_t>(reach)], 1e-5)
            << num_rows << " rows, " << width;
      }
    }
  }
}

TEST(TimeWarp, RowsThatAllTokensSeeAlikeSayNothing) {
  std::vector<float> weights(12, 0.25f);
  sharpen_weights(weights, {.num_tokens = 3, .num_rows = 4}, 3);
  EXPECT_EQ(weights, std::vector<float>(12, 0.0f));
}

}  // namespace
}  // namespace quire
