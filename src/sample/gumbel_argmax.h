// Sampling as an argmax: the token with the greatest scaled logit + Gumbel noise.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "kernels/cpu/sampling/row_scan.h"

namespace quire {

struct GumbelDraw {
  ScannedRow row;
  LogitScale scale;
  float threshold;  // tokens with a smaller scaled logit are never chosen
  uint64_t seed;
  int32_t position;
};

// Returns argmax(scaled(row[i]) + noise(i)) over scaled(row[i]) >= threshold; of equals, the
// smaller id. The noise of token i is a function of (seed, position, i) alone: word i % 4 of Philox
// block i / 4.
TokenId gumbel_argmax(const RowKernels& kernels, const GumbelDraw& draw);

}  // namespace quire
