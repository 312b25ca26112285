// Fits the constants of a hardware description to measured operator times.
//
// One half of the shapes is fitted, the other half tests the fit. Data that contradicts the limits
// of the hardware is refused and not fitted.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "roofline/hardware/hardware.h"
#include "roofline/model/operator_tables.h"

namespace quire {

struct FitReport {
  std::string what;  // "gemm bf16"
  int64_t num_train = 0;
  int64_t num_test = 0;
  int64_t num_impossible = 0;  // left out, since they are faster than the hardware allows
  int64_t num_dispatched = 0;  // left out, since they take as long as the host needs to launch them
  // For experts: the median of their times over those of bfloat16 weights of the same shapes in the
  // same table; 0: there are too few pairs.
  double times_bf16 = 0;
  bool untuned = false;   // times_bf16 is far above 1, so the constants stayed as they were
  double train_mape = 0;  // percent
  double test_mape = 0;
  double test_bias = 0;        // mean signed error; above 0: predictions are too slow
  double table_test_mape = 0;  // of interpolation between points of the first half; 0: none
};

// Each function sets the constants of its operator in `hardware`, whose limits must be right. The
// search uses at most `max_fit_samples` samples of the first half. kInvalidArgument: there are too
// few samples, or more than one in twenty is faster than the hardware allows.
struct FitOptions {
  int64_t max_fit_samples = 4000;
  uint64_t seed = 1;
  bool judge_only = false;   // keeps the constants; the second half still tests them
  bool judge_tables = true;  // also tests interpolation between points of the first half
  bool fit_untuned = false;  // fits experts whose kernel no server would choose, see below
};
// Products that were launched one by one take at least as long as the host's dispatch, which graphs
// do not need. If even the smallest ones take more than 20 us, only those of four times that are
// fitted, and launch_us is kept.
Result<FitReport> fit_gemm(std::span<const GemmSample> samples, const NumberFormat& format,
                           Hardware& hardware, const FitOptions& options = {});
Result<FitReport> fit_prefill_attention(std::span<const AttentionSample> samples,
                                        const NumberFormat& kv, Hardware& hardware,
                                        const FitOptions& options = {});
Result<FitReport> fit_decode_attention(std::span<const AttentionSample> samples,
                                       const NumberFormat& kv, Hardware& hardware,
                                       const FitOptions& options = {});
// Fits alpha_us, alpha_per_device_us, ramp_us and the share of the link, which all collectives
// share. The samples must all be of the library, or all of the server's own kernel for small
// all-reduces.
Result<FitReport> fit_collectives(std::span<const CollectiveSample> samples, Hardware& hardware,
                                  const FitOptions& options = {});
// Fits the rows in which all experts have an even share. `format` must have a name. A kernel whose
// weights have fewer bits than bfloat16 and which is still slower was not tuned. A server would
// choose another one, so nothing is fitted to it.
Result<FitReport> fit_experts(std::span<const ExpertsSample> samples, const NumberFormat& format,
                              Hardware& hardware, const FitOptions& options = {});
// Tests the constants of `hardware` with the other rows, and fits nothing.
Result<FitReport> judge_skewed_experts(std::span<const ExpertsSample> samples,
                                       const NumberFormat& format, const Hardware& hardware,
                                       const FitOptions& options = {});

// Compares the reports of two descriptions for the same samples, report by report.
// kInvalidArgument: `written` is more than half a percentage point worse for some operators, which
// the message names.
Status check_not_worse(std::span<const FitReport> written, std::span<const FitReport> replaced);

}  // namespace quire
