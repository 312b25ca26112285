#include "roofline/calibrate_steps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "roofline/cost_model.h"
#include "roofline/layer_plan.h"
#include "roofline/nnls.h"
#include "roofline/step_rows.h"

namespace quire {
namespace {

constexpr int64_t kMinSteps = 100;
constexpr double kImpossible = 0.7;
constexpr double kMaxWaitingShare = 0.5;
// Steps of nearly the same shape go to one side together.
uint64_t shape_hash(const StepShape& shape, uint64_t seed) {
  const auto bucket = [](double value) {
    return static_cast<uint64_t>(std::lround(8 * std::log2(value + 1)));
  };
  uint64_t hash = seed * 0x9e3779b97f4a7c15u;
  for (const double value :
       {double(shape.num_tokens), double(shape.num_requests), double(shape.decode.context)}) {
    hash = (hash ^ bucket(value)) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 29;
  }
  return hash;
}

// What one step in the middle of a thousand weighs against the wish that neighbouring row counts
// have like shares: little, so that it decides only where steps are few.
constexpr double kSmoothness = 0.02;

// Neighbouring knots that steps came near should not differ without a reason.
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

// What one would guess of a kernel before any step was measured, and how far off that may be. A
// calibration run tells reads of short contexts from nothing; without a guess a run of long ones
// would be predicted from noise.
struct Guess {
  size_t column;
  double value;
  double deviation;
};
constexpr Guess kGuesses[] = {
    {kDecodeAttention, 2, 1}, {kPrefillCompute, 2, 2}, {kPrefillMemory, 0, 10}};
constexpr double kStepNoise = 0.08;  // of one step, relative: what a guess is weighed against

void add_guesses(const std::array<bool, kNumColumns>& used, std::vector<double>& a,
                 std::vector<double>& b) {
  for (const Guess& guess : kGuesses) {
    if (!used[guess.column]) continue;
    const double weight = kStepNoise / guess.deviation;
    a.resize(a.size() + kNumColumns);
    a[a.size() - kNumColumns + guess.column] = weight;
    b.push_back(weight * (guess.value - (has_floor(guess.column) ? 1 : 0)));
  }
}

// Least squares of errors over `scale_us`, one for each row. Columns that no row has are 0.
std::vector<double> solve(const std::vector<const StepRow*>& rows,
                          const std::vector<double>& scale_us) {
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
  add_smoothness(used, rows.size(), a, b);
  add_guesses(used, a, b);
  std::vector<double> x = solve_nnls(a, b, kNumColumns);
  for (size_t i = 0; i < kNumColumns; ++i) {
    if (has_floor(i) && used[i]) x[i] += 1;
  }
  return x;
}

// Errors relative to the measured time would favour what is too small, since a step that took long
// would count for less; so they are relative to what the fit before says.
std::vector<double> solve_unbiased(const std::vector<const StepRow*>& rows) {
  std::vector<double> scale_us(rows.size());
  std::transform(rows.begin(), rows.end(), scale_us.begin(),
                 [](const StepRow* row) { return row->measured_us; });
  std::vector<double> x = solve(rows, scale_us);
  for (int round = 0; round < 3; ++round) {
    std::transform(rows.begin(), rows.end(), scale_us.begin(), [&](const StepRow* row) {
      return std::max(predicted_us(*row, x), 0.1 * row->measured_us);
    });
    x = solve(rows, scale_us);
  }
  return x;
}

struct Fit {
  std::vector<double> x;
  int64_t num_disturbed = 0;
  double disturbed_share = 0;  // time that they took longer, over that of all steps
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Most that one step may count for: more is an accident of this run.
constexpr double kLongestStall = 10;

double disturbed_share(const std::vector<const StepRow*>& all, const std::vector<double>& x) {
  double measured = 0, predicted = 0;
  for (const StepRow* row : all) {
    const double us = predicted_us(*row, x);
    predicted += us;
    measured += std::min(row->measured_us, kLongestStall * us);
  }
  return std::max(0.0, measured / predicted - 1);
}

// Fits, leaves out steps that took much longer than their fit says, fits again.
Fit solve_robustly(const std::vector<const StepRow*>& all) {
  std::vector<const StepRow*> rows = all;
  Fit fit{.x = solve_unbiased(rows)};
  for (int round = 0; round < 4; ++round) {
    std::vector<double> errors;
    for (const StepRow* row : rows) {
      errors.push_back(std::abs(row->measured_us / predicted_us(*row, fit.x) - 1));
    }
    const double limit = std::max(0.02, 5 * median(errors));
    std::vector<const StepRow*> kept;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (errors[i] <= limit) kept.push_back(rows[i]);
    }
    if (kept.size() == rows.size() || kept.size() < all.size() / 2) break;
    rows = std::move(kept);
    fit.x = solve_unbiased(rows);
  }
  fit.num_disturbed = static_cast<int64_t>(all.size() - rows.size());
  fit.disturbed_share = disturbed_share(all, fit.x);
  return fit;
}

StepKind kind_of(const StepShape& shape) {
  if (shape.chunks.empty()) return StepKind::kDecode;
  return shape.decode.num_requests > 0 ? StepKind::kMixed : StepKind::kPrompt;
}

class Mean {
 public:
  void add(double value) {
    sum_ += value;
    ++count_;
  }
  double percent() const { return count_ > 0 ? 100 * sum_ / static_cast<double>(count_) : 0; }

 private:
  double sum_ = 0;
  int64_t count_ = 0;
};

void judge(const std::vector<StepRow>& rows, const std::vector<bool>& is_test,
           const CostModel& model, StepFitReport& report) {
  Mean train, test, bias, decode, prefill, mixed;
  std::vector<double> sizes;
  for (size_t i = 0; i < rows.size(); ++i) {
    const MeasuredStep& step = *rows[i].step;
    const double error = model.predict_us(step.shape) / rows[i].measured_us - 1;
    if (!is_test[i]) {
      train.add(std::abs(error));
      continue;
    }
    test.add(std::abs(error));
    bias.add(error);
    sizes.push_back(std::abs(error));
    Mean* const by_kind[] = {&decode, &prefill, &mixed};
    by_kind[static_cast<size_t>(kind_of(step.shape))]->add(std::abs(error));
  }
  report.train_mape = train.percent();
  report.test_mape = test.percent();
  report.test_bias = bias.percent();
  report.decode_mape = decode.percent();
  report.prefill_mape = prefill.percent();
  report.mixed_mape = mixed.percent();
  if (sizes.empty()) return;
  report.test_median = 100 * median(std::move(sizes));
}

// From the end of a step to the beginning of the next, while there is work: idle times are fewer.
double median_gap_us(const std::vector<MeasuredStep>& steps) {
  std::vector<double> gaps;
  for (size_t i = 1; i < steps.size(); ++i) {
    const int64_t gap = steps[i].begin_us - steps[i - 1].begin_us - steps[i - 1].total_us();
    if (gap >= 0) gaps.push_back(static_cast<double>(gap));
  }
  return gaps.empty() ? 0 : median(std::move(gaps));
}

Status check_data(const StepLog& log, const StepFitReport& report, const Hardware& hardware,
                  const StepFitOptions& options) {
  const auto total = static_cast<int64_t>(log.steps.size());
  if (report.num_impossible * 20 > total) {
    return invalid_argument(
        "{} of {} steps are faster than the limits of {} allow: expected the hardware that the log "
        "was written on (quire roofline probe)",
        report.num_impossible, total, hardware.name);
  }
  if (report.num_failed * 20 > total) {
    return invalid_argument("{} of {} steps failed: expected a log of a healthy run",
                            report.num_failed, total);
  }
  if (report.waiting_share > kMaxWaitingShare && !options.allow_overloaded) {
    return invalid_argument(
        "requests waited in {:.0f} % of the steps: expected a run below saturation "
        "(--allow-overloaded to use it all the same)",
        100 * report.waiting_share);
  }
  if (report.num_train < kMinSteps / 2 || report.num_test < kMinSteps / 4) {
    return invalid_argument(
        "expected at least {} steps of different shapes, got {} and {} after "
        "the split",
        kMinSteps, report.num_train, report.num_test);
  }
  return {};
}

}  // namespace

Result<StepFitReport> fit_steps(const StepLog& log, Hardware& hardware,
                                const StepFitOptions& options) {
  const CostOptions no_memo{.max_memoised_tokens = 0};
  QUIRE_ASSIGN_OR_RETURN(const CostModel bare_model,
                         CostModel::create(log.header.model, bare_hardware(hardware),
                                           log.header.parallelism, no_memo));
  StepFitReport report{.num_steps = static_cast<int64_t>(log.steps.size())};
  const DevicePlan plan = plan_device(log.header.model, log.header.parallelism);
  report.gap_us = median_gap_us(log.steps);
  std::vector<StepRow> rows;
  std::vector<bool> is_test;
  int64_t num_waiting = 0;
  for (const MeasuredStep& step : log.steps) {
    num_waiting += step.num_waiting > 0 ? 1 : 0;
    if (step.failed || step.total_us() <= 0) {
      ++report.num_failed;
      continue;
    }
    if (static_cast<double>(step.total_us()) < kImpossible * bare_model.bound_us(step.shape)) {
      ++report.num_impossible;
      continue;
    }
    rows.push_back(make_row(step, report.gap_us, bare_model, plan));
    is_test.push_back(shape_hash(step.shape, options.seed) % 2 != 0);
  }
  report.num_test = std::count(is_test.begin(), is_test.end(), true);
  report.num_train = static_cast<int64_t>(rows.size()) - report.num_test;
  report.waiting_share =
      log.steps.empty() ? 0
                        : static_cast<double>(num_waiting) / static_cast<double>(log.steps.size());
  QUIRE_RETURN_IF_ERROR(check_data(log, report, hardware, options));
  std::vector<const StepRow*> train, all;
  for (size_t i = 0; i < rows.size(); ++i) {
    all.push_back(&rows[i]);
    if (!is_test[i]) train.push_back(&rows[i]);
  }
  const Fit half = solve_robustly(train);
  Hardware judged = hardware;
  apply_fit(half.x, judged);
  QUIRE_ASSIGN_OR_RETURN(const CostModel fitted,
                         CostModel::create(log.header.model, judged, log.header.parallelism));
  judge(rows, is_test, fitted, report);
  const Fit whole = solve_robustly(all);
  report.num_disturbed = whole.num_disturbed;
  report.disturbed_share = whole.disturbed_share;
  std::vector<double> mean = whole.x;
  for (double& x : mean) x *= 1 + whole.disturbed_share;
  apply_fit(mean, hardware);
  return report;
}

std::string_view to_string(StepKind kind) {
  switch (kind) {
    case StepKind::kDecode:
      return "decode";
    case StepKind::kPrompt:
      return "prompt";
    case StepKind::kMixed:
      break;
  }
  return "mixed";
}

Result<std::vector<StepResidual>> step_residuals(const StepLog& log, const Hardware& hardware) {
  QUIRE_ASSIGN_OR_RETURN(const CostModel model,
                         CostModel::create(log.header.model, hardware, log.header.parallelism,
                                           {.max_memoised_tokens = 0}));
  const double gap_us = median_gap_us(log.steps);
  std::vector<StepResidual> residuals;
  for (const MeasuredStep& step : log.steps) {
    if (step.failed || step.total_us() <= 0) continue;
    residuals.push_back({.step = &step,
                         .kind = kind_of(step.shape),
                         .measured_us = static_cast<double>(step.total_us()) + gap_us,
                         .predicted_us = model.predict_us(step.shape)});
  }
  return residuals;
}

}  // namespace quire
