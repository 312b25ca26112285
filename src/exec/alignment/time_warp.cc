#include "exec/alignment/time_warp.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace quire {
namespace {

void standardize(std::span<float> weights, const WarpShape& shape) {
  const auto size = static_cast<size_t>(shape.num_rows);
  const auto count = static_cast<double>(shape.num_tokens);
  for (size_t row = 0; row < size; ++row) {
    double sum = 0.0, squares = 0.0;
    for (size_t at = row; at < weights.size(); at += size) sum += weights[at];
    const double mean = sum / count;
    for (size_t at = row; at < weights.size(); at += size)
      squares += (weights[at] - mean) * (weights[at] - mean);
    const double deviation = std::sqrt(squares / count);
    // Where all tokens are alike a row says nothing.
    for (size_t at = row; at < weights.size(); at += size) {
      weights[at] = deviation > 0.0 ? static_cast<float>((weights[at] - mean) / deviation) : 0.0f;
    }
  }
}

void take_medians(std::span<float> line, int32_t width, std::vector<float>& padded) {
  const size_t reach = static_cast<size_t>(width) / 2, size = line.size();
  if (size <= reach) return;
  padded.resize(size + 2 * reach);
  std::copy(line.begin(), line.end(), padded.begin() + static_cast<int64_t>(reach));
  for (size_t i = 0; i < reach; ++i) {
    padded[i] = line[reach - i];
    padded[reach + size + i] = line[size - 2 - i];
  }
  std::vector<float> window(static_cast<size_t>(width));
  for (size_t i = 0; i < size; ++i) {
    std::copy_n(padded.begin() + static_cast<int64_t>(i), width, window.begin());
    std::nth_element(window.begin(), window.begin() + static_cast<int64_t>(reach), window.end());
    line[i] = window[reach];
  }
}

// Where a path comes from.
enum class Step : uint8_t { kBoth, kToken, kRow };

}  // namespace

void sharpen_weights(std::span<float> weights, const WarpShape& shape, int32_t filter_rows) {
  QUIRE_CHECK(filter_rows > 0 && filter_rows % 2 == 1, "a median of {} values", filter_rows);
  standardize(weights, shape);
  std::vector<float> padded;
  const auto size = static_cast<size_t>(shape.num_rows);
  for (size_t first = 0; first < weights.size(); first += size)
    take_medians(weights.subspan(first, size), filter_rows, padded);
}

std::vector<int32_t> first_rows(std::span<const float> fit, const WarpShape& shape) {
  const int64_t tokens = shape.num_tokens, rows = shape.num_rows;
  QUIRE_CHECK(tokens > 0 && rows > 0 && std::ssize(fit) == tokens * rows, "{} x {}", tokens, rows);
  constexpr float kNever = std::numeric_limits<float>::infinity();
  // Costs of the token before and of this one, with a place before the first row.
  std::vector<float> before(static_cast<size_t>(rows + 1), kNever), here = before;
  before[0] = 0.0f;
  std::vector<Step> steps(fit.size());
  for (int64_t token = 0; token < tokens; ++token) {
    here[0] = kNever;
    for (int64_t row = 0; row < rows; ++row) {
      const auto at = static_cast<size_t>(row);
      const float both = before[at], of_token = before[at + 1], of_row = here[at];
      Step step = Step::kRow;
      float cost = of_row;
      if (both < of_token && both < of_row) {
        step = Step::kBoth;
        cost = both;
      } else if (of_token < both && of_token < of_row) {
        step = Step::kToken;
        cost = of_token;
      }
      const auto place = static_cast<size_t>(token * rows + row);
      here[at + 1] = static_cast<float>(double{cost} - double{fit[place]});
      steps[place] = step;
    }
    std::swap(before, here);
  }
  std::vector<int32_t> first(static_cast<size_t>(tokens));
  for (int64_t token = tokens - 1, row = rows - 1; token >= 0 && row >= 0;) {
    first[static_cast<size_t>(token)] = static_cast<int32_t>(row);
    const Step step = steps[static_cast<size_t>(token * rows + row)];
    if (step != Step::kRow) --token;
    if (step != Step::kToken) --row;
  }
  return first;
}

}  // namespace quire
