// A RandomStream draws random numbers of a simulation from one Philox stream, in order. A stream is
// named by (seed, purpose), so one more draw in one stream does not change the others.
#pragma once

#include <array>
#include <cstdint>

namespace quire::sim {

class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t purpose) : seed_(seed), purpose_(purpose) {}

  uint32_t next_u32();
  // Returns a number in the open interval (0, 1), with 53 bits.
  double uniform();
  // Returns a number uniform in [0, n); n >= 1.
  uint64_t below(uint64_t n);
  double exponential(double mean);
  double normal(double mean, double deviation);
  // Draws from a gamma distribution with shape > 0 and scale > 0 (Marsaglia and Tsang, "A simple
  // method for generating gamma variables", 2000).
  double gamma(double shape, double scale);
  double weibull(double shape, double scale);

 private:
  uint64_t seed_;
  uint64_t purpose_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 4> words_{};
  int num_left_ = 0;
};

}  // namespace quire::sim
