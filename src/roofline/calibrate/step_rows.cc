#include "roofline/calibrate/step_rows.h"

#include <algorithm>
#include <cmath>

#include "roofline/model/kernel_time.h"

namespace quire {
namespace {

// Both sides of prompt attention are added, which is linear in the constants.
constexpr double kSumExponent = 1;
constexpr double kHidden = 1e6;  // the share of a side that takes no time

// Distributes `us` over the two knots around `rows`, by the interpolation of gemm_time().
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

// Adds both sides of prompt attention and the number of its launches.
void add_prefill(const StepShape& shape, const CostModel& model, const DevicePlan& plan,
                 StepRow& row) {
  const Hardware& hardware = model.hardware();
  const double peak = hardware.peak(hardware.effective_math(MathType::kBf16));
  for (const GroupPlan& group : plan.groups) {
    const KernelTime time = prefill_attention_time(group.prefill, shape.chunks, hardware);
    row.columns[kPrefillCompute] += group.num_layers * time.flops / peak * 1e6;
    const double moved = time.kv_bytes + (time.activation_bytes > hardware.cache_bytes
                                              ? time.activation_bytes
                                              : 0);  // counted as in prefill_attention_time()
    row.columns[kPrefillMemory] += group.num_layers * moved / hardware.memory_bytes_per_s * 1e6;
    row.columns[kPrefillLaunch] += group.num_layers;
  }
}

// A knot without steps near it gets the share of the nearest knot that has some.
std::vector<SharePoint> shares_of(const std::vector<double>& x) {
  std::vector<SharePoint> shares;
  for (size_t i = 0; i < kNumKnots; ++i) {
    if (x[i] > 0) shares.push_back({kKnots[i], std::min(1.0, 1 / x[i])});
  }
  if (shares.empty()) shares.push_back({1, 1});
  return shares;
}

constexpr double kLeastShare = 1e-3;  // a hardware file may have no smaller one

double share_of(double inverse) {
  return inverse > 0 ? std::clamp(1 / inverse, kLeastShare, 1.0) : 1.0;
}

}  // namespace

Hardware bare_hardware(Hardware hardware) {
  GemmModel bare{.compute_share = 1, .memory_share = 1, .launch_us = 0, .exponent = 1000};
  bare.shares = {{1, 1}};
  // One kind represents each arithmetic unit; the others use its constants.
  hardware.gemm.clear();
  for (const KernelKind kind : {KernelKind::kF32, KernelKind::kBf16, KernelKind::kFp8,
                                KernelKind::kInt8, KernelKind::kFp4}) {
    if (hardware.effective_math(math_of(kind)) == math_of(kind)) hardware.gemm[kind] = bare;
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

// Each expert has fewer rows than the step has tokens. The time of experts is put at the row count
// of the step, which is how the bare model computes it.
StepRow make_row(const MeasuredStep& step, double gap_us, const CostModel& bare,
                 const DevicePlan& plan) {
  StepRow row{.step = &step, .measured_us = static_cast<double>(step.total_us()) + gap_us};
  const auto costs = bare.explain(step.shape);
  const double tokens = step.shape.num_tokens;
  for (const Kernel kernel : {Kernel::kQkvProjection, Kernel::kOutputProjection, Kernel::kMlp,
                              Kernel::kRouter, Kernel::kExperts}) {
    spread(tokens, of(costs, kernel), row.columns);
  }
  if (step.shape.num_sampled > 0) {
    spread(step.shape.num_sampled, of(costs, Kernel::kHead), row.columns);
  }
  if (!step.shape.chunks.empty()) add_prefill(step.shape, bare, plan, row);
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

double predicted_us(const StepRow& row, const std::vector<double>& x) {
  double us = row.fixed_us;
  for (size_t i = 0; i < kNumColumns; ++i) us += x[i] * row.columns[i];
  return us;
}

bool has_floor(size_t column) {
  return column < kNumKnots || column == kPrefillCompute || column == kDecodeAttention;
}

void apply_fit(const std::vector<double>& x, Hardware& hardware) {
  const double admission_us = hardware.host.admission_us;
  hardware = bare_hardware(std::move(hardware));
  for (auto& [kind, model] : hardware.gemm) model.shares = shares_of(x);
  hardware.prefill_attention.compute_share = share_of(x[kPrefillCompute]);
  hardware.prefill_attention.memory_share =
      x[kPrefillMemory] > 1 / kHidden ? std::max(1 / x[kPrefillMemory], kLeastShare) : kHidden;
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

}  // namespace quire
