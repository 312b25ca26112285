// solve_steps() finds the constants of steps on a machine whose speed drifts. Private to
// calibrate_steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "roofline/calibrate/step_rows.h"

namespace quire {

// A prior value of a column of x, and its uncertainty.
struct StepGuess {
  size_t column = 0;
  double value = 0;
  double deviation = 1;
};

struct StepSolution {
  std::vector<double> x;  // [kNumColumns], for predicted_us()
  int64_t num_disturbed = 0;
  // The time of all rows, including disturbed ones, over the time that x predicts for them.
  double mean_ratio = 1;
  // The relative standard deviation of the machine's speed between spans of seconds.
  double drift = 0;
};

// Borrows `rows`, at least one. Errors are relative to the predicted time.
//
// A shared machine is faster and slower for seconds or minutes, and all steps of such a span
// deviate together: a thousand of them tell no more about the constants than a few, while steps of
// different shapes within one span tell much. So a span is a random effect whose variance is
// estimated from the residuals, and most of their span's mean is subtracted from rows before they
// are solved (generalised least squares as in Swamy and Arora, "The Exact Finite Sample Properties
// of the Estimators of Coefficients in the Error Components Regression Models", Econometrica 40,
// 1972; the variances are from an analysis of variance of the residuals).
StepSolution solve_steps(const std::vector<const StepRow*>& rows,
                         std::span<const StepGuess> guesses);

double median_of(std::vector<double> values);  // precondition: not empty

}  // namespace quire
