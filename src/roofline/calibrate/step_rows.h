// These are steps as rows of a linear fit: what each would cost on a device without losses, by what
// is sought. The header is private to calibrate_steps.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <vector>

#include "roofline/calibrate/step_log.h"
#include "roofline/model/cost_model.h"
#include "roofline/model/layer_plan.h"

namespace quire {

// The share of matrix products is sought at these row counts, which are close together where
// kernels have variants of their own for so many rows.
inline constexpr double kKnots[] = {1,  2,  3,  4,  5,  6,   7,   8,   10,  12,  16,   20,   24,
                                    28, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 8192};
inline constexpr size_t kNumKnots = std::size(kKnots);
// These columns of the fit come after the knots.
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

// A StepRow is one measured step: columns x what is sought + fixed_us = measured_us.
struct StepRow {
  const MeasuredStep* step = nullptr;
  double measured_us = 0;
  std::array<double, kNumColumns> columns{};
  double fixed_us = 0;  // of kernels whose constants are not sought
};

// Returns a description in which every kernel takes what it must and nothing more; the columns
// count in it.
Hardware bare_hardware(Hardware hardware);
// `bare` has bare_hardware(). The gap is the time until the next step could begin.
StepRow make_row(const MeasuredStep& step, double gap_us, const CostModel& bare,
                 const DevicePlan& plan);
double predicted_us(const StepRow& row, const std::vector<double>& x);
// Returns whether the column's value is at least 1, as inverse shares are: no kernel is taken to be
// faster than its bound, and what the bound explains is not booked to a constant.
bool has_floor(size_t column);
// Writes the constants that were found into the description.
void apply_fit(const std::vector<double>& x, Hardware& hardware);

}  // namespace quire
