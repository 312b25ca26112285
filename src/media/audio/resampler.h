// A Resampler changes the sample rate of sound piece by piece, by band-limited interpolation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

namespace quire {

// One thread at a time may use it.
class Resampler {
 public:
  // `from` and `to` are in Hz, and one is at most 256 times the other. With equal rates, samples
  // pass unchanged.
  static Result<Resampler> create(int32_t from, int32_t to);

  // Appends the resampled `samples`, as far as they are ready, to `out`; with `is_end` all the
  // rest.
  Status put(std::span<const float> samples, bool is_end, std::vector<float>& out);

 private:
  struct State;
  struct Delete {
    void operator()(State* state) const;
  };
  Resampler(std::unique_ptr<State, Delete> state, double ratio)
      : state_(std::move(state)), ratio_(ratio) {}

  std::unique_ptr<State, Delete> state_;  // null if the rates are equal
  double ratio_;
  std::vector<float> block_;
};

}  // namespace quire
