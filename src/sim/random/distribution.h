// A LengthDistribution draws lengths. Users write distributions in these forms:
//
//   constant:N                 N
//   uniform:LOW:HIGH           whole numbers in [LOW, HIGH]
//   range:N:RATIO              uniform in [RATIO * N, N] (InferenceMAX), 0 <= RATIO <= 1
//   spread:N:RATIO             uniform in [(1 - RATIO) * N, (1 + RATIO) * N] (vllm bench),
//                              0 <= RATIO < 1
//   normal:MEAN:DEVIATION      values below 1 become 1
//   lognormal:MEAN:DEVIATION   mean and deviation of the lengths, not of their logarithms
//   exponential:MEAN
//   pareto:LEAST:ALPHA         P(X > x) = (LEAST / x)^ALPHA, ALPHA > 0
//   empirical:FILE             lengths, one per line, drawn with equal probability
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/random/random_stream.h"

namespace quire::sim {

enum class DistributionKind : uint8_t {
  kConstant,
  kUniform,
  kNormal,
  kLognormal,
  kExponential,
  kPareto,
  kEmpirical
};

class LengthDistribution {
 public:
  // Parses one of these forms; the error names `what`, such as the flag.
  static Result<LengthDistribution> parse(std::string_view text, std::string_view what);
  static LengthDistribution constant(int32_t value);
  // Returns a distribution that draws these values by their weights (not all zero).
  static LengthDistribution weighted(std::vector<int32_t> values,
                                     const std::vector<double>& weights);

  // Returns a length of at least 1 and at most kMaxLength.
  int32_t draw(RandomStream& random) const;
  static constexpr int32_t kMaxLength = 1 << 24;

 private:
  DistributionKind kind_ = DistributionKind::kConstant;
  double a_ = 1;
  double b_ = 0;
  std::vector<int32_t> values_;  // kEmpirical
  // KEmpirical: cumulated weights, ending in 1; empty means equal weights.
  std::vector<double> cumulative_;
};

}  // namespace quire::sim
