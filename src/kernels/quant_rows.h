// Converts rows of quantized weights to simpler formats, for backends whose kernels take fewer
// formats than checkpoints have. The floats that a row stands for keep all their bits.
//
//   SimplerRows simpler(stored, spec.k);
//   pack(weight, simpler.of(rows));            // rows of `stored` as rows of simpler_quant(stored)
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/api/quant.h"

namespace quire {

// Returns the simpler format of `stored`: codes of 4 or 8 bits (the integers of a table become
// 8-bit integers), and scales and minima of one level in float32.
QuantSpec simpler_quant(const QuantSpec& stored);

// Converts rows. For one thread at a time; its memory grows to that of the largest call.
class SimplerRows {
 public:
  SimplerRows(const QuantSpec& stored, int64_t columns) : stored_(stored), columns_(columns) {}
  // Returns the converted rows, which are valid until the next call. Arrays that need no change are
  // those of `rows`.
  QuantRows of(const QuantRows& rows);

 private:
  QuantSpec stored_;
  int64_t columns_;
  std::vector<uint8_t> codes_;
  std::vector<float> scales_;
  std::vector<float> mins_;
};

// Returns rows [begin, begin + count) of `rows`.
QuantRows part_of(const QuantRows& rows, const WeightSpec& spec, int64_t begin, int64_t count);

// Writes the floats that rows of `spec` stand for to `out` [num_rows, K].
void dequantize_rows(const WeightSpec& spec, const QuantRows& rows, float* out);

}  // namespace quire
