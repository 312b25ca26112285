// fit_steps() fits a hardware description to measured steps (quire roofline calibrate STEPLOG).
//
// The time from the start of a step to the start of the next is linear in the unknown constants:
// the inverse shares of matrix products at a few row counts, those of both sides of prompt
// attention and of decode attention, and constants per step, launch of prompt attention, request
// and token. So non-negative least squares on relative errors finds them (step_solver.h). Steps
// that other programs disturbed are left out. Then all constants are scaled to match the time of
// all steps, including disturbed ones, so that means are right. One half of the step shapes is
// fitted and the other half tests the fit; then the constants that are written are fitted to all of
// them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "roofline/calibrate/step_log.h"
#include "roofline/hardware/hardware.h"

namespace quire {

struct StepFitOptions {
  bool allow_overloaded = false;  // accepts logs in which requests are queued most of the time
  uint64_t seed = 1;
};

struct StepFitReport {
  int64_t num_steps = 0;
  int64_t num_train = 0;
  int64_t num_test = 0;
  int64_t num_failed = 0;      // left out: the step failed
  int64_t num_impossible = 0;  // left out: they are faster than the limits allow
  int64_t num_disturbed = 0;   // left out as outliers
  // Time of all steps over what the fit of the undisturbed ones predicts, less 1.
  double mean_shift = 0;
  double drift = 0;          // percent, of the machine's speed over the run (standard deviation)
  double gap_us = 0;         // median time between two steps, a part of the constant per step
  double waiting_share = 0;  // of steps with queued requests
  double train_mape = 0;     // percent, of whole steps
  double test_mape = 0;
  double test_bias = 0;
  double test_median = 0;  // absolute error, percent
  double decode_mape = 0;  // of test steps without prompt tokens; 0: none
  double prefill_mape = 0;
  double mixed_mape = 0;
};

// Sets shares and overheads of `hardware`, and keeps its limits. kInvalidArgument: there are too
// few steps, too many are faster than the hardware allows, or the run was overloaded.
Result<StepFitReport> fit_steps(const StepLog& log, Hardware& hardware,
                                const StepFitOptions& options = {});

enum class StepKind : uint8_t { kDecode, kPrompt, kMixed };
std::string_view to_string(StepKind kind);

// One step compared with a description. `measured_us` ends at the start of the next step (by the
// median gap).
struct StepResidual {
  const MeasuredStep* step = nullptr;  // borrowed from the log
  StepKind kind = StepKind::kDecode;
  double measured_us = 0;
  double predicted_us = 0;
};

// Returns every step that did not fail, in the order of the log, which must outlive the result.
// Fits nothing.
Result<std::vector<StepResidual>> step_residuals(const StepLog& log, const Hardware& hardware);

}  // namespace quire
