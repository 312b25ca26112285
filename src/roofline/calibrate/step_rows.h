// Steps as rows of a linear fit: for each unknown constant, the time on a device without losses.
// Private to calibrate_steps.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <vector>

#include "roofline/calibrate/step_log.h"
#include "roofline/model/cost_model.h"
#include "roofline/model/layer_plan.h"

namespace quire {

// The share of matrix products is fitted at these row counts. They are close together where kernels
// have separate variants by number of rows.
inline constexpr double kKnots[] = {1,  2,  3,  4,  5,  6,   7,   8,   10,  12,  16,   20,   24,
                                    28, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 8192};
inline constexpr size_t kNumKnots = std::size(kKnots);
// The columns of the fit after the knots.
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

// One measured step: columns x constants + fixed_us = measured_us.
struct StepRow {
  const MeasuredStep* step = nullptr;
  double measured_us = 0;
  std::array<double, kNumColumns> columns{};
  double fixed_us = 0;  // of kernels whose constants are not fitted
};

// Returns a description in which every kernel takes its least time; the columns are computed with
// it.
Hardware bare_hardware(Hardware hardware);
// Makes the row of a step. `bare` has bare_hardware(). The gap is the time until the next step
// could begin.
StepRow make_row(const MeasuredStep& step, double gap_us, const CostModel& bare,
                 const DevicePlan& plan);
double predicted_us(const StepRow& row, const std::vector<double>& x);
// Returns whether the column's value is at least 1, as inverse shares are: no kernel is faster than
// its bound, and time within the bound does not go to a constant.
bool has_floor(size_t column);
// Writes the fitted constants into the description.
void apply_fit(const std::vector<double>& x, Hardware& hardware);

}  // namespace quire
