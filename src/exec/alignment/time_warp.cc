#include "exec/alignment/time_warp.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace quire {
namespace {

// Goes through the matrix line by line, as it lies in memory, so that a row's sums are in the order
// of the tokens.
void standardize(std::span<float> weights, const WarpShape& shape) {
  const auto size = static_cast<size_t>(shape.num_rows);
  const auto count = static_cast<double>(shape.num_tokens);
  std::vector<double> means(size), deviations(size);
  for (size_t first = 0; first < weights.size(); first += size) {
    for (size_t row = 0; row < size; ++row) means[row] += weights[first + row];
  }
  for (double& mean : means) mean /= count;
  for (size_t first = 0; first < weights.size(); first += size) {
    for (size_t row = 0; row < size; ++row) {
      const double off = weights[first + row] - means[row];
      deviations[row] += off * off;
    }
  }
  for (double& deviation : deviations) deviation = std::sqrt(deviation / count);
  for (size_t first = 0; first < weights.size(); first += size) {
    for (size_t row = 0; row < size; ++row) {
      const double off = weights[first + row] - means[row];
      // A row to which all tokens attend alike says nothing.
      weights[first + row] =
          deviations[row] > 0.0 ? static_cast<float>(off / deviations[row]) : 0.0f;
    }
  }
}

// Takes the medians of kColumns neighbouring windows at once: the smallest of the remaining values
// moves to the front until the middle one is there.
constexpr size_t kColumns = 32;

void order(float* __restrict least, float* __restrict greatest) {
  for (size_t i = 0; i < kColumns; ++i) {
    const float a = std::min(least[i], greatest[i]), b = std::max(least[i], greatest[i]);
    least[i] = a;
    greatest[i] = b;
  }
}

void take_some_medians(const float* padded, size_t width, std::vector<float>& scratch, float* out) {
  scratch.resize(width * kColumns);
  for (size_t k = 0; k < width; ++k)
    std::copy_n(padded + k, kColumns, scratch.data() + k * kColumns);
  for (size_t done = 0; done <= width / 2; ++done) {
    for (size_t k = done + 1; k < width; ++k)
      order(scratch.data() + done * kColumns, scratch.data() + k * kColumns);
  }
  std::copy_n(scratch.data() + width / 2 * kColumns, kColumns, out);
}

struct MedianScratch {
  std::vector<float> padded, windows;
};

void take_medians(std::span<float> line, size_t width, MedianScratch& scratch) {
  const size_t reach = width / 2, size = line.size();
  if (size <= reach) return;
  // Whole groups of kColumns are read. What stands behind the line affects none of its medians.
  const size_t whole = (size + kColumns - 1) / kColumns * kColumns;
  std::vector<float>& padded = scratch.padded;
  padded.assign(whole + 2 * reach, 0.0f);
  std::copy(line.begin(), line.end(), padded.begin() + static_cast<int64_t>(reach));
  for (size_t i = 0; i < reach; ++i) {
    padded[i] = line[reach - i];
    padded[reach + size + i] = line[size - 2 - i];
  }
  for (size_t first = 0; first < size; first += kColumns) {
    float medians[kColumns];
    take_some_medians(padded.data() + first, width, scratch.windows, medians);
    std::copy_n(medians, std::min(kColumns, size - first), line.data() + first);
  }
}

// The cell before a cell of the path: one token and one row back, one token back, or one row back.
enum class Step : uint8_t { kBoth, kToken, kRow };

}  // namespace

void sharpen_weights(std::span<float> weights, const WarpShape& shape, int32_t filter_rows) {
  QUIRE_CHECK(filter_rows > 0 && filter_rows % 2 == 1, "a median of {} values", filter_rows);
  standardize(weights, shape);
  MedianScratch scratch;
  const auto size = static_cast<size_t>(shape.num_rows);
  for (size_t first = 0; first < weights.size(); first += size)
    take_medians(weights.subspan(first, size), static_cast<size_t>(filter_rows), scratch);
}

std::vector<int32_t> first_rows(std::span<const float> fit, const WarpShape& shape) {
  const int64_t tokens = shape.num_tokens, rows = shape.num_rows;
  QUIRE_CHECK(tokens > 0 && rows > 0 && std::ssize(fit) == tokens * rows, "{} x {}", tokens, rows);
  constexpr float kNever = std::numeric_limits<float>::infinity();
  // Costs of the token before and of this token, each with one more place in front of the first
  // row.
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
