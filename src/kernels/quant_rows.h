// Rows of quantized weights in simpler terms, for backends whose kernels know fewer formats than
// checkpoints do. What a row stands for stays the same to the last bit.
//
//   SimplerRows simpler(stored, spec.k);
//   pack(weight, simpler.of(rows));            // rows of `stored` as rows of simpler_quant(stored)
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/api/quant.h"

namespace quire {

// Codes of 4 or 8 bits (integers of a table become integers of 8 bits), scales and minima of one
// level in float32.
QuantSpec simpler_quant(const QuantSpec& stored);

// One thread; grows with the largest call.
class SimplerRows {
 public:
  SimplerRows(const QuantSpec& stored, int64_t columns) : stored_(stored), columns_(columns) {}
  // The result is valid until the next call; arrays that need no change are those of `rows`.
  QuantRows of(const QuantRows& rows);

 private:
  QuantSpec stored_;
  int64_t columns_;
  std::vector<uint8_t> codes_;
  std::vector<float> scales_;
  std::vector<float> mins_;
};

// Rows [begin, begin + count) of `rows`.
QuantRows part_of(const QuantRows& rows, const WeightSpec& spec, int64_t begin, int64_t count);

// The numbers that rows of `spec` stand for. out: [num_rows, K].
void dequantize_rows(const WeightSpec& spec, const QuantRows& rows, float* out);

}  // namespace quire
