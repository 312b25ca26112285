// Synthetic workloads have arrivals at a rate that may change, lengths from distributions, shared
// prefixes, and sessions of several turns.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/random/distribution.h"
#include "sim/workload/workload.h"

namespace quire::sim {

// These are the gaps between arrivals at rate 1; all have mean 1.
enum class ArrivalKind : uint8_t { kPoisson, kGamma, kWeibull, kConstant };

struct ArrivalProcess {
  ArrivalKind kind = ArrivalKind::kPoisson;
  // For gamma this is the coefficient of variation (1 Poisson, above it bursty), for Weibull the
  // shape (1 Poisson, below it bursty).
  double parameter = 1;
  // Reads "poisson", "gamma:CV", "weibull:SHAPE" and "constant".
  static Result<ArrivalProcess> parse(std::string_view text, std::string_view what);
  double draw_gap(RandomStream& random) const;
};

// A RateProfile has requests per second over time: straight lines between points, with the last
// rate held. "5" is constant; "0:1,60:10,90:10,91:2" a ramp, a plateau and a drop; an infinite rate
// sends everything at once.
class RateProfile {
 public:
  static Result<RateProfile> parse(std::string_view text, std::string_view what);
  static RateProfile constant(double per_second);
  bool infinite() const { return infinite_; }
  // Returns the time by which `expected` requests have arrived on average; kNoTime when that is
  // never.
  double time_of(double expected) const;
  static constexpr double kNoTime = -1;

 private:
  struct Point {
    double time_s = 0;
    double rate = 0;
    double expected = 0;  // requests until time_s
  };
  std::vector<Point> points_;
  bool infinite_ = false;
};

struct SyntheticOptions {
  int64_t num_requests = 1000;       // sessions count each of their turns
  std::optional<double> duration_s;  // also ends when arrivals are past it
  RateProfile rate = RateProfile::constant(1);
  ArrivalProcess arrivals;
  LengthDistribution input = LengthDistribution::constant(1024);
  LengthDistribution output = LengthDistribution::constant(128);
  // Prompts begin with one of num_prefixes shared texts of prefix_tokens tokens, which come on top
  // of `input`.
  int32_t prefix_tokens = 0;
  int32_t num_prefixes = 1;
  // The history of a session grows by what was said in its turns; `input` is what a turn adds.
  LengthDistribution turns = LengthDistribution::constant(1);
  double think_s = 0;  // mean (exponential) pause before the next turn
  // Fixed prompts are asked again and again, as some harnesses do; with 0 all are different.
  int32_t num_prompts = 0;
  std::optional<ClosedLoop> closed_loop;
  int32_t max_model_len = 0;  // sessions end before they outgrow it; 0: no limit
  uint64_t seed = 0;

  Status validate() const;
};

Result<Workload> make_synthetic(const SyntheticOptions& options);

}  // namespace quire::sim
