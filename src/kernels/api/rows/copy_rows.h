// Values that go from one place to another.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "tensor/activations.h"

namespace quire {

// out[t, i] = x[t, i], rounded to the type of `out`, or 0 in rows that stand at position 0, where
// positions are given; a CPU has float32 alone.
struct CopyRowsParams {
  ConstActivations x = nullptr;  // [T, N]
  int64_t x_stride = 0;          // elements from row to row
  Activations out = nullptr;     // [T, N], not overlapping x
  int64_t out_stride = 0;
  const int32_t* positions = nullptr;  // [T] or null
  int64_t num_tokens = 0;              // T
  int64_t size = 0;                    // N
};
void copy_rows(Stream& stream, const CopyRowsParams& params);

// Brings values of the host to where the device reads them; they may change once this returns.
struct PlaceFloatsParams {
  const float* values = nullptr;  // [n], of the host
  float* out = nullptr;           // [n]
  int64_t count = 0;              // n
};
void place_floats(Stream& stream, const PlaceFloatsParams& params);

}  // namespace quire
