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

// The distribution of the gaps between arrivals at rate 1; all have mean 1.
enum class ArrivalKind : uint8_t { kPoisson, kGamma, kWeibull, kConstant };

struct ArrivalProcess {
  ArrivalKind kind = ArrivalKind::kPoisson;
  // The coefficient of variation for gamma (1 is Poisson, more is bursty); the shape for Weibull (1
  // is Poisson, less is bursty).
  double parameter = 1;
  // Parses "poisson", "gamma:CV", "weibull:SHAPE" or "constant".
  static Result<ArrivalProcess> parse(std::string_view text, std::string_view what);
  double draw_gap(RandomStream& random) const;
};

// A RateProfile is the number of requests per second over time: straight lines between points; the
// last rate holds on. "5" is constant; "0:1,60:10,90:10,91:2" is a ramp, a plateau and a drop; an
// infinite rate sends everything at once.
class RateProfile {
 public:
  static Result<RateProfile> parse(std::string_view text, std::string_view what);
  static RateProfile constant(double per_second);
  bool infinite() const { return infinite_; }
  // Returns the time by which `expected` requests have arrived on average, or kNoTime if that never
  // happens.
  double time_of(double expected) const;
  static constexpr double kNoTime = -1;

 private:
  struct Point {
    double time_s = 0;
    double rate = 0;
    double expected = 0;  // requests expected until time_s
  };
  std::vector<Point> points_;
  bool infinite_ = false;
};

struct SyntheticOptions {
  int64_t num_requests = 1000;       // counts each turn of a session
  std::optional<double> duration_s;  // no requests arrive later
  RateProfile rate = RateProfile::constant(1);
  ArrivalProcess arrivals;
  LengthDistribution input = LengthDistribution::constant(1024);
  LengthDistribution output = LengthDistribution::constant(128);
  // Prompts begin with one of num_prefixes shared texts of prefix_tokens tokens, in addition to
  // `input`.
  int32_t prefix_tokens = 0;
  int32_t num_prefixes = 1;
  // The number of turns of a session. Its history grows with each turn; `input` is what a turn
  // adds.
  LengthDistribution turns = LengthDistribution::constant(1);
  double think_s = 0;  // mean (exponential) pause before the next turn
  // The number of fixed prompts that are sent again and again, as some benchmarks do; 0 means that
  // all prompts differ.
  int32_t num_prompts = 0;
  std::optional<ClosedLoop> closed_loop;
  int32_t max_model_len = 0;  // sessions end before they exceed it; 0 means no limit
  uint64_t seed = 0;

  Status validate() const;
};

Result<Workload> make_synthetic(const SyntheticOptions& options);

}  // namespace quire::sim
