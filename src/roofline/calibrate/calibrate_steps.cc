#include "roofline/calibrate/calibrate_steps.h"

#include <algorithm>
#include <cmath>

#include "roofline/calibrate/step_rows.h"
#include "roofline/calibrate/step_solver.h"
#include "roofline/model/cost_model.h"
#include "roofline/model/layer_plan.h"

namespace quire {
namespace {

constexpr int64_t kMinSteps = 100;
constexpr double kImpossible = 0.7;
constexpr double kMaxWaitingShare = 0.5;
// Steps of nearly the same shape go to the same half.
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
  report.test_median = 100 * median_of(std::move(sizes));
}

// Returns the median time from the end of a step to the beginning of the next. Idle times are fewer
// than those with work, so they do not matter.
double median_gap_us(const std::vector<MeasuredStep>& steps) {
  std::vector<double> gaps;
  for (size_t i = 1; i < steps.size(); ++i) {
    const int64_t gap = steps[i].begin_us - steps[i - 1].begin_us - steps[i - 1].total_us();
    if (gap >= 0) gaps.push_back(static_cast<double>(gap));
  }
  return gaps.empty() ? 0 : median_of(std::move(gaps));
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

// Returns guesses of the constants. For attention it is the time of the description over its bound,
// reads included, because a run of short contexts cannot tell it.
std::vector<StepGuess> guesses_of(const std::vector<StepRow>& rows, const CostModel& described,
                                  const CostModel& bare) {
  constexpr double kDeviation = 0.2;  // relative
  struct Sum {
    Kernel kernel;
    size_t column;
    double described_us = 0;
    double bare_us = 0;
  };
  Sum sums[] = {{Kernel::kDecodeAttention, kDecodeAttention},
                {Kernel::kPrefillAttention, kPrefillCompute}};
  for (const StepRow& row : rows) {
    const auto described_costs = described.explain(row.step->shape);
    const auto bare_costs = bare.explain(row.step->shape);
    for (Sum& sum : sums) {
      const auto kernel = static_cast<size_t>(sum.kernel);
      sum.described_us += described_costs[kernel].predicted_us;
      sum.bare_us += bare_costs[kernel].predicted_us;
    }
  }
  std::vector<StepGuess> guesses = {{.column = kPrefillMemory, .value = 0, .deviation = 10}};
  for (const Sum& sum : sums) {
    if (sum.bare_us <= 0) continue;
    const double value = std::max(1.0, sum.described_us / sum.bare_us);
    guesses.push_back({.column = sum.column, .value = value, .deviation = kDeviation * value});
  }
  return guesses;
}

}  // namespace

Result<StepFitReport> fit_steps(const StepLog& log, Hardware& hardware,
                                const StepFitOptions& options) {
  const CostOptions no_memo{.max_memoised_tokens = 0};
  QUIRE_ASSIGN_OR_RETURN(const CostModel bare_model,
                         CostModel::create(log.header.model, bare_hardware(hardware),
                                           log.header.parallelism, no_memo));
  QUIRE_ASSIGN_OR_RETURN(
      const CostModel described,
      CostModel::create(log.header.model, hardware, log.header.parallelism, no_memo));
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
  const std::vector<StepGuess> guesses = guesses_of(rows, described, bare_model);
  const StepSolution half = solve_steps(train, guesses);
  Hardware judged = hardware;
  apply_fit(half.x, judged);
  QUIRE_ASSIGN_OR_RETURN(const CostModel fitted,
                         CostModel::create(log.header.model, judged, log.header.parallelism));
  judge(rows, is_test, fitted, report);
  const StepSolution whole = solve_steps(all, guesses);
  report.num_disturbed = whole.num_disturbed;
  report.mean_shift = whole.mean_ratio - 1;
  report.drift = 100 * whole.drift;
  std::vector<double> mean = whole.x;
  for (double& x : mean) x *= whole.mean_ratio;
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
