// fit_steps() fits a hardware description to measured steps (quire roofline calibrate STEPLOG).
//
// The time from the start of a step to the start of the next is linear in what is sought: the
// inverse shares of matrix products at a few row counts, of both sides of prompt attention and of
// decode attention, and constants per step, launch of prompt attention, request and token. So
// non-negative least squares on relative errors finds it (step_solver.h). Steps that something else
// on the machine disturbed are left out; then all constants are scaled so that the time of all
// steps, disturbed ones too, comes out, because means need it. Half of the step shapes fit and the
// other half judges; then all of them fit what is written.
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
  bool allow_overloaded = false;  // accepts logs in which requests wait most of the time
  uint64_t seed = 1;
};

struct StepFitReport {
  int64_t num_steps = 0;
  int64_t num_train = 0;
  int64_t num_test = 0;
  int64_t num_failed = 0;      // left out: the step failed
  int64_t num_impossible = 0;  // left out, being faster than the limits allow
  int64_t num_disturbed = 0;   // left out as outliers
  double mean_shift = 0;     // time of all steps over what the fit of the undisturbed says, less 1
  double drift = 0;          // percent, of the machine's speed over the run (standard deviation)
  double gap_us = 0;         // median time between two steps, part of the constant per step
  double waiting_share = 0;  // of steps with requests in the queue
  double train_mape = 0;     // percent, of whole steps
  double test_mape = 0;
  double test_bias = 0;
  double test_median = 0;  // absolute error, percent
  double decode_mape = 0;  // of test steps without prompt tokens; 0: there were none
  double prefill_mape = 0;
  double mixed_mape = 0;
};

// Sets shares and overheads of `hardware`, whose limits are kept. kInvalidArgument: there are too
// few steps, too many that are faster than the hardware allows, or the run was overloaded.
Result<StepFitReport> fit_steps(const StepLog& log, Hardware& hardware,
                                const StepFitOptions& options = {});

enum class StepKind : uint8_t { kDecode, kPrompt, kMixed };
std::string_view to_string(StepKind kind);

// A StepResidual is one step against a description. `measured_us` runs to the start of the next
// step (the median gap).
struct StepResidual {
  const MeasuredStep* step = nullptr;  // borrowed from the log
  StepKind kind = StepKind::kDecode;
  double measured_us = 0;
  double predicted_us = 0;
};

// Returns every step that did not fail, in the order of the log, which must outlive the answer.
// Nothing is fitted.
Result<std::vector<StepResidual>> step_residuals(const StepLog& log, const Hardware& hardware);

}  // namespace quire
