// Sound at another rate, as it comes: band-limited interpolation.
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
  // Rates in Hz, at most 256 times apart. The same rate: samples pass unchanged.
  static Result<Resampler> create(int32_t from, int32_t to);

  // Appends what comes of `samples` to `out`; with `is_end` all that is left.
  Status put(std::span<const float> samples, bool is_end, std::vector<float>& out);

 private:
  struct State;
  struct Delete {
    void operator()(State* state) const;
  };
  Resampler(std::unique_ptr<State, Delete> state, double ratio)
      : state_(std::move(state)), ratio_(ratio) {}

  std::unique_ptr<State, Delete> state_;  // null: the rates are the same
  double ratio_;
  std::vector<float> block_;
};

}  // namespace quire
