// solve_steps() finds what steps cost, on a machine whose speed drifts. The header is private to
// calibrate_steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "roofline/calibrate/step_rows.h"

namespace quire {

// A StepGuess is what one would say of a column of x before any step was measured, and how far off
// that may be.
struct StepGuess {
  size_t column = 0;
  double value = 0;
  double deviation = 1;
};

struct StepSolution {
  std::vector<double> x;  // [kNumColumns], as predicted_us() takes it
  int64_t num_disturbed = 0;
  // This is the time of all rows, disturbed ones too, over what x predicts for them.
  double mean_ratio = 1;
  // This is the relative standard deviation of the machine's speed from one span of seconds to the
  // next.
  double drift = 0;
};

// `rows` are borrowed, at least one. Errors count relative to the predicted time.
//
// A shared machine is faster and slower for seconds or minutes, and all steps of such a span are
// off together: a thousand of them tell no more of the constants than a few, while steps of
// different shapes within one span tell much. So a span is a random effect whose variance is
// estimated from the residuals, and rows are freed of most of their span's mean before they are
// solved (generalised least squares as in Swamy and Arora, "The Exact Finite Sample Properties of
// the Estimators of Coefficients in the Error Components Regression Models", Econometrica 40, 1972;
// the variances are from an analysis of variance of the residuals).
StepSolution solve_steps(const std::vector<const StepRow*>& rows,
                         std::span<const StepGuess> guesses);

double median_of(std::vector<double> values);  // of at least one

}  // namespace quire
