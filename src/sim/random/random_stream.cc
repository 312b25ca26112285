#include "sim/random/random_stream.h"

#include <cmath>
#include <numbers>

#include "base/rng.h"

namespace quire::sim {

uint32_t RandomStream::next_u32() {
  if (num_left_ == 0) {
    words_ =
        philox4x32(seed_, {static_cast<uint32_t>(counter_), static_cast<uint32_t>(counter_ >> 32),
                           static_cast<uint32_t>(purpose_), static_cast<uint32_t>(purpose_ >> 32)});
    ++counter_;
    num_left_ = 4;
  }
  return words_[static_cast<size_t>(--num_left_)];
}

double RandomStream::uniform() {
  const uint64_t high = next_u32() >> 5;
  const uint64_t low = next_u32() >> 6;
  return (static_cast<double>((high << 26) | low) + 0.5) * 0x1p-53;
}

uint64_t RandomStream::below(uint64_t n) {
  return static_cast<uint64_t>(uniform() * static_cast<double>(n));
}

double RandomStream::exponential(double mean) { return -mean * std::log(uniform()); }

double RandomStream::normal(double mean, double deviation) {
  const double radius = std::sqrt(-2.0 * std::log(uniform()));
  return mean + deviation * radius * std::cos(2.0 * std::numbers::pi * uniform());
}

double RandomStream::gamma(double shape, double scale) {
  if (shape < 1.0) {
    const double boost = std::pow(uniform(), 1.0 / shape);
    return gamma(shape + 1.0, scale) * boost;
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double x = normal(0.0, 1.0);
    const double t = 1.0 + c * x;
    if (t <= 0.0) continue;
    const double v = t * t * t;
    if (std::log(uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v * scale;
  }
}

double RandomStream::weibull(double shape, double scale) {
  return scale * std::pow(-std::log(uniform()), 1.0 / shape);
}

}  // namespace quire::sim
