#include "roofline/calibrate_steps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "roofline/cost_model.h"
#include "roofline/kernel_time.h"
#include "roofline/layer_plan.h"
#include "roofline/nnls.h"

namespace quire {
namespace {

constexpr int64_t kMinSteps = 100;
constexpr double kImpossible = 0.7;
constexpr double kMaxWaitingShare = 0.5;
// Row counts at which the share of matrix products is sought.
constexpr double kKnots[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 8192};
constexpr size_t kNumKnots = std::size(kKnots);
// Columns of the fit, after the knots.
enum Column : size_t {
  kPrefillCompute = kNumKnots,
  kPrefillMemory,
  kPrefillLaunch,
  kDecodeAttention,
  kStep,
  kRequest,
  kToken,
  kNumColumns,
};

constexpr double kSumExponent = 1;  // of prompt attention: both sides add, linear in what is sought
constexpr double kHidden = 1e6;     // the share of a side that costs nothing

// A description in which every kernel takes what it must and nothing more: what columns count in.
Hardware bare(Hardware hardware) {
  for (GemmModel& model : hardware.gemm) {
    model = {.compute_share = 1, .memory_share = 1, .launch_us = 0, .exponent = 1000};
    model.shares = {{1, 1}};
  }
  hardware.num_units = 0;
  hardware.prefill_attention = {.compute_share = 1,
                                .softmax_flops = 0,
                                .tile_us = 0,
                                .memory_share = kHidden,
                                .exponent = kSumExponent,
                                .launch_us = 0};
  hardware.prefill_attention_fp8 = hardware.prefill_attention;
  hardware.decode_attention = {.memory_share = 1,
                               .compute_share = 1,
                               .exponent = 1000,
                               .request_us = 0,
                               .combine_us = 0,
                               .launch_us = 0};
  hardware.decode_attention_fp8 = hardware.decode_attention;
  hardware.elementwise = {.memory_share = 1, .launch_us = 0, .kernels_per_layer = 0};
  hardware.host = {.step_us = 0, .request_us = 0, .admission_us = hardware.host.admission_us};
  hardware.rule = CombinationRule::kSum;
  return hardware;
}

struct Row {
  const MeasuredStep* step = nullptr;
  double measured_us = 0;
  std::array<double, kNumColumns> columns{};
  double fixed_us = 0;  // of kernels whose constants are not sought
};

// Spreads `us` over the two knots around `rows`, as gemm_time() interpolates.
void spread(double rows, double us, std::array<double, kNumColumns>& columns) {
  size_t upper = 0;
  while (upper < kNumKnots && kKnots[upper] < rows) ++upper;
  if (upper == 0 || upper == kNumKnots) {
    columns[std::min(upper, kNumKnots - 1)] += us;
    return;
  }
  const double f = std::log(rows / kKnots[upper - 1]) / std::log(kKnots[upper] / kKnots[upper - 1]);
  columns[upper - 1] += (1 - f) * us;
  columns[upper] += f * us;
}

double of(const std::array<KernelCost, kNumKernels>& costs, Kernel kernel) {
  return costs[static_cast<size_t>(kernel)].predicted_us;
}

// Both sides of attention over prompts, and how often it is launched.
void add_prefill(const StepShape& shape, const CostModel& model, const DevicePlan& plan, Row& row) {
  const Hardware& hardware = model.hardware();
  const double peak = hardware.peak(hardware.effective_math(MathType::kBf16));
  for (const GroupPlan& group : plan.groups) {
    const KernelTime time = prefill_attention_time(group.prefill, shape.chunks, hardware);
    row.columns[kPrefillCompute] += group.num_layers * time.flops / peak * 1e6;
    const double moved = time.kv_bytes + (time.activation_bytes > hardware.cache_bytes
                                              ? time.activation_bytes
                                              : 0);  // as prefill_attention_time() counts
    row.columns[kPrefillMemory] += group.num_layers * moved / hardware.memory_bytes_per_s * 1e6;
    row.columns[kPrefillLaunch] += group.num_layers;
  }
}

// Experts run with fewer rows each than the step has tokens; they are put at the step's row count,
// as the bare model prices them.
Row make_row(const MeasuredStep& step, double gap_us, const CostModel& model,
             const DevicePlan& plan) {
  Row row{.step = &step, .measured_us = static_cast<double>(step.total_us()) + gap_us};
  const auto costs = model.explain(step.shape);
  const double tokens = step.shape.num_tokens;
  for (const Kernel kernel : {Kernel::kQkvProjection, Kernel::kOutputProjection, Kernel::kMlp,
                              Kernel::kRouter, Kernel::kExperts}) {
    spread(tokens, of(costs, kernel), row.columns);
  }
  if (step.shape.num_sampled > 0) {
    spread(step.shape.num_sampled, of(costs, Kernel::kHead), row.columns);
  }
  if (!step.shape.chunks.empty()) add_prefill(step.shape, model, plan, row);
  row.columns[kDecodeAttention] = of(costs, Kernel::kDecodeAttention);
  row.columns[kStep] = 1;
  row.columns[kRequest] = step.shape.num_requests;
  row.columns[kToken] = tokens;
  for (const Kernel kernel : {Kernel::kElementwise, Kernel::kEmbedding, Kernel::kSampling,
                              Kernel::kAllReduce, Kernel::kAllToAll, Kernel::kPipelineHop}) {
    row.fixed_us += of(costs, kernel);
  }
  return row;
}

double predicted_us(const Row& row, const std::vector<double>& x) {
  double us = row.fixed_us;
  for (size_t i = 0; i < kNumColumns; ++i) us += x[i] * row.columns[i];
  return us;
}

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

// Inverse shares are at least 1: no kernel is taken to be faster than its bound, and what the bound
// explains is not booked to a constant.
bool has_floor(size_t column) {
  return column < kNumKnots || column == kPrefillCompute || column == kDecodeAttention;
}

// Least squares of relative errors. Columns that no row has are 0.
std::vector<double> solve(const std::vector<const Row*>& rows) {
  std::vector<double> a;
  std::vector<double> b;
  std::array<bool, kNumColumns> used{};
  for (const Row* row : rows) {
    const double weight = 1 / row->measured_us;
    double rest = row->measured_us - row->fixed_us;
    for (size_t i = 0; i < kNumColumns; ++i) {
      const double value = row->columns[i];
      used[i] = used[i] || value > 0;
      if (has_floor(i)) rest -= value;
      a.push_back(value * weight);
    }
    b.push_back(rest * weight);
  }
  std::vector<double> x = solve_nnls(a, b, kNumColumns);
  for (size_t i = 0; i < kNumColumns; ++i) {
    if (has_floor(i) && used[i]) x[i] += 1;
  }
  return x;
}

struct Fit {
  std::vector<double> x;
  int64_t num_disturbed = 0;
};

// Fits, leaves out steps that took much longer than their fit says, fits again.
Fit solve_robustly(std::vector<const Row*> rows) {
  Fit fit{.x = solve(rows)};
  const size_t all = rows.size();
  for (int round = 0; round < 4; ++round) {
    std::vector<double> errors;
    for (const Row* row : rows) {
      errors.push_back(row->measured_us / predicted_us(*row, fit.x) - 1);
    }
    std::vector<double> sizes(errors.size());
    std::transform(errors.begin(), errors.end(), sizes.begin(),
                   [](double e) { return std::abs(e); });
    const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
    std::nth_element(sizes.begin(), middle, sizes.end());
    const double limit = std::max(0.02, 5 * *middle);
    std::vector<const Row*> kept;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (std::abs(errors[i]) <= limit) kept.push_back(rows[i]);
    }
    if (kept.size() == rows.size() || kept.size() < all / 2) break;
    rows = std::move(kept);
    fit.x = solve(rows);
  }
  fit.num_disturbed = static_cast<int64_t>(all - rows.size());
  return fit;
}

// Knots that no step came near have the share of the nearest that some did.
std::vector<SharePoint> shares_of(const std::vector<double>& x) {
  std::vector<SharePoint> shares;
  for (size_t i = 0; i < kNumKnots; ++i) {
    if (x[i] > 0) shares.push_back({kKnots[i], std::min(1.0, 1 / x[i])});
  }
  if (shares.empty()) shares.push_back({1, 1});
  return shares;
}

double share_of(double inverse) { return inverse > 0 ? std::clamp(1 / inverse, 1e-3, 1.0) : 1.0; }

void apply(const std::vector<double>& x, Hardware& hardware) {
  const double admission_us = hardware.host.admission_us;
  hardware = bare(std::move(hardware));
  for (GemmModel& model : hardware.gemm) model.shares = shares_of(x);
  hardware.prefill_attention.compute_share = share_of(x[kPrefillCompute]);
  hardware.prefill_attention.memory_share =
      x[kPrefillMemory] > 1 / kHidden ? 1 / x[kPrefillMemory] : kHidden;
  hardware.prefill_attention.launch_us = x[kPrefillLaunch];
  hardware.prefill_attention_fp8 = hardware.prefill_attention;
  hardware.decode_attention.memory_share = share_of(x[kDecodeAttention]);
  hardware.decode_attention.compute_share = share_of(x[kDecodeAttention]);
  hardware.decode_attention_fp8 = hardware.decode_attention;
  hardware.host = {.step_us = x[kStep],
                   .request_us = x[kRequest],
                   .token_us = x[kToken],
                   .admission_us = admission_us};
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

void judge(const std::vector<Row>& rows, const std::vector<bool>& is_test, const CostModel& model,
           StepFitReport& report) {
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
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  report.test_median = 100 * *middle;
}

// From the end of a step to the beginning of the next, while there is work: idle times are fewer.
double median_gap_us(const std::vector<MeasuredStep>& steps) {
  std::vector<int64_t> gaps;
  for (size_t i = 1; i < steps.size(); ++i) {
    const int64_t gap = steps[i].begin_us - steps[i - 1].begin_us - steps[i - 1].total_us();
    if (gap >= 0) gaps.push_back(gap);
  }
  if (gaps.empty()) return 0;
  const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
  std::nth_element(gaps.begin(), middle, gaps.end());
  return static_cast<double>(*middle);
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
  QUIRE_ASSIGN_OR_RETURN(
      const CostModel bare_model,
      CostModel::create(log.header.model, bare(hardware), log.header.parallelism, no_memo));
  StepFitReport report{.num_steps = static_cast<int64_t>(log.steps.size())};
  const DevicePlan plan = plan_device(log.header.model, log.header.parallelism);
  report.gap_us = median_gap_us(log.steps);
  std::vector<Row> rows;
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
  std::vector<const Row*> train;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!is_test[i]) train.push_back(&rows[i]);
  }
  const Fit fit = solve_robustly(std::move(train));
  report.num_disturbed = fit.num_disturbed;
  apply(fit.x, hardware);
  QUIRE_ASSIGN_OR_RETURN(const CostModel fitted,
                         CostModel::create(log.header.model, hardware, log.header.parallelism));
  judge(rows, is_test, fitted, report);
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
