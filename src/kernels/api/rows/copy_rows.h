// Ops that copy values from one place to another.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "tensor/activations.h"

namespace quire {

// out[t, i] = x[t, i], rounded to the type of `out`. With `positions`, rows at position 0 become 0.
// On a CPU both types are float32.
struct CopyRowsParams {
  ConstActivations x = nullptr;  // [T, N]
  int64_t x_stride = 0;          // elements from row to row
  Activations out = nullptr;     // [T, N], must not overlap x
  int64_t out_stride = 0;
  const int32_t* positions = nullptr;  // [T] or null
  int64_t num_tokens = 0;              // T
  int64_t size = 0;                    // N
};
void copy_rows(Stream& stream, const CopyRowsParams& params);

// place_floats() copies floats from the host's memory to memory that the device reads. The caller
// may change `values` once it returns.
struct PlaceFloatsParams {
  const float* values = nullptr;  // [n], in the host's memory
  float* out = nullptr;           // [n]
  int64_t count = 0;              // n
};
void place_floats(Stream& stream, const PlaceFloatsParams& params);

}  // namespace quire
