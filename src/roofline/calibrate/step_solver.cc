#include "roofline/calibrate/step_solver.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "roofline/calibrate/nnls.h"

namespace quire {
namespace {

// Shares at neighbouring row counts should be similar. Squared, this rule weighs 0.4 steps for
// every thousand steps of the log, so that it decides only where steps are few.
constexpr double kSmoothness = 0.02;

// Adds a row for each pair of neighbouring knots that steps used, by which they should not differ.
void add_smoothness(const std::array<bool, kNumColumns>& used, size_t num_rows,
                    std::vector<double>& a, std::vector<double>& b) {
  const double weight = kSmoothness * std::sqrt(static_cast<double>(num_rows));
  for (size_t i = 1; i < kNumKnots; ++i) {
    if (!used[i - 1] || !used[i]) continue;
    a.resize(a.size() + kNumColumns);
    a[a.size() - kNumColumns + i - 1] = -weight;
    a[a.size() - kNumColumns + i] = weight;
    b.push_back(0);
  }
}

// A calibration run may not determine a kernel's cost at all: reads of short contexts are lost in
// noise. Then the guess decides, so that long contexts are not predicted from noise.
void add_guesses(std::span<const StepGuess> guesses, const std::array<bool, kNumColumns>& used,
                 double noise, std::vector<double>& a, std::vector<double>& b) {
  for (const StepGuess& guess : guesses) {
    if (!used[guess.column]) continue;
    const double weight = noise / guess.deviation;
    a.resize(a.size() + kNumColumns);
    a[a.size() - kNumColumns + guess.column] = weight;
    b.push_back(weight * (guess.value - (has_floor(guess.column) ? 1 : 0)));
  }
}

constexpr int64_t kSpanUs = 10'000'000;
constexpr double kFirstNoise = 0.08;  // until there are residuals

// The span of seconds that each row belongs to, and the share of the span's mean to subtract from
// its rows.
struct Spans {
  std::vector<size_t> of_row;
  std::vector<double> num_rows;  // of each span
  double drift = 0;  // relative standard deviation of the machine's speed from span to span
  double noise = kFirstNoise;  // the same for one step within its span

  double removed_share(size_t span) const {
    return 1 - noise / std::sqrt(noise * noise + num_rows[span] * drift * drift);
  }
};

Spans make_spans(const std::vector<const StepRow*>& rows) {
  Spans spans;
  std::unordered_map<int64_t, size_t> index_of;
  int64_t last_us = 0;
  for (const StepRow* row : rows) {
    if (row->step->begin_us < last_us) index_of.clear();  // the next log, with a clock of its own
    last_us = row->step->begin_us;
    const auto [found, is_new] =
        index_of.try_emplace(row->step->begin_us / kSpanUs, spans.num_rows.size());
    if (is_new) spans.num_rows.push_back(0);
    spans.of_row.push_back(found->second);
    ++spans.num_rows[found->second];
  }
  return spans;
}

// Returns the sums over the rows of each span; `values` has `width` numbers per row.
std::vector<double> span_sums(const Spans& spans, const std::vector<double>& values, size_t width) {
  std::vector<double> sums(spans.num_rows.size() * width, 0.0);
  for (size_t r = 0; r < spans.of_row.size(); ++r) {
    for (size_t i = 0; i < width; ++i) sums[spans.of_row[r] * width + i] += values[r * width + i];
  }
  return sums;
}

// Estimates how much steps deviate within their spans, and spans from one another.
void estimate_drift(const std::vector<double>& errors, Spans& spans) {
  const std::vector<double> sums = span_sums(spans, errors, 1);
  const auto num_rows = static_cast<double>(errors.size());
  const auto num_spans = static_cast<double>(spans.num_rows.size());
  if (num_spans < 2 || num_rows <= num_spans) return;
  double total = 0, between = 0;
  for (const double error : errors) total += error * error;
  for (size_t s = 0; s < sums.size(); ++s) between += sums[s] * sums[s] / spans.num_rows[s];
  const double variance = std::max(1e-8, (total - between) / (num_rows - num_spans));
  spans.noise = std::sqrt(variance);
  spans.drift = std::sqrt(std::max(0.0, (between - num_spans * variance) / num_rows));
}

void remove_drift(const Spans& spans, size_t width, std::vector<double>& values) {
  const std::vector<double> sums = span_sums(spans, values, width);
  for (size_t r = 0; r < spans.of_row.size(); ++r) {
    const size_t span = spans.of_row[r];
    const double factor = spans.removed_share(span) / spans.num_rows[span];
    for (size_t i = 0; i < width; ++i) values[r * width + i] -= factor * sums[span * width + i];
  }
}

// Solves the least squares of errors divided by `scale_us`, which has one value per row. Constants
// of unused columns are 0.
std::vector<double> solve(const std::vector<const StepRow*>& rows,
                          const std::vector<double>& scale_us, const Spans& spans,
                          std::span<const StepGuess> guesses) {
  std::vector<double> a;
  std::vector<double> b;
  std::array<bool, kNumColumns> used{};
  for (size_t r = 0; r < rows.size(); ++r) {
    const StepRow& row = *rows[r];
    double rest = row.measured_us - row.fixed_us;
    for (size_t i = 0; i < kNumColumns; ++i) {
      const double value = row.columns[i];
      used[i] = used[i] || value > 0;
      if (has_floor(i)) rest -= value;
      a.push_back(value / scale_us[r]);
    }
    b.push_back(rest / scale_us[r]);
  }
  remove_drift(spans, kNumColumns, a);
  remove_drift(spans, 1, b);
  add_smoothness(used, rows.size(), a, b);
  add_guesses(guesses, used, spans.noise, a, b);
  std::vector<double> x = solve_nnls(a, b, kNumColumns);
  for (size_t i = 0; i < kNumColumns; ++i) {
    if (has_floor(i) && used[i]) x[i] += 1;
  }
  return x;
}

// Errors relative to the measured time would make constants too small, since steps that took long
// would count for less. So errors are relative to the time that the previous fit predicts.
std::vector<double> solve_unbiased(const std::vector<const StepRow*>& rows,
                                   std::span<const StepGuess> guesses, Spans& spans) {
  std::vector<double> scale_us(rows.size());
  std::transform(rows.begin(), rows.end(), scale_us.begin(),
                 [](const StepRow* row) { return row->measured_us; });
  std::vector<double> x = solve(rows, scale_us, spans, guesses);
  for (int round = 0; round < 4; ++round) {
    std::vector<double> errors(rows.size());
    for (size_t r = 0; r < rows.size(); ++r) {
      const double us = predicted_us(*rows[r], x);
      errors[r] = rows[r]->measured_us / us - 1;
      scale_us[r] = std::max(us, 0.1 * rows[r]->measured_us);
    }
    estimate_drift(errors, spans);
    x = solve(rows, scale_us, spans, guesses);
  }
  return x;
}

// The most times its prediction that one step may count; longer ones are accidents of this run.
constexpr double kLongestStall = 10;

double mean_ratio(const std::vector<const StepRow*>& all, const std::vector<double>& x) {
  double measured = 0, predicted = 0;
  for (const StepRow* row : all) {
    const double us = predicted_us(*row, x);
    predicted += us;
    measured += std::min(row->measured_us, kLongestStall * us);
  }
  return measured / predicted;
}

}  // namespace

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Fits, leaves out steps that took much longer than the fit predicts, and fits again.
StepSolution solve_steps(const std::vector<const StepRow*>& all,
                         std::span<const StepGuess> guesses) {
  std::vector<const StepRow*> rows = all;
  Spans spans = make_spans(rows);
  StepSolution solution{.x = solve_unbiased(rows, guesses, spans)};
  for (int round = 0; round < 4; ++round) {
    std::vector<double> errors;
    errors.reserve(rows.size());
    for (const StepRow* row : rows) {
      errors.push_back(std::abs(row->measured_us / predicted_us(*row, solution.x) - 1));
    }
    const double limit = std::max(0.02, 5 * median_of(errors));
    std::vector<const StepRow*> kept;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (errors[i] <= limit) kept.push_back(rows[i]);
    }
    if (kept.size() == rows.size() || kept.size() < all.size() / 2) break;
    rows = std::move(kept);
    spans = make_spans(rows);
    solution.x = solve_unbiased(rows, guesses, spans);
  }
  solution.num_disturbed = static_cast<int64_t>(all.size() - rows.size());
  solution.mean_ratio = mean_ratio(all, solution.x);
  solution.drift = spans.drift;
  return solution;
}

}  // namespace quire
