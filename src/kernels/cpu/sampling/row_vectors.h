// The vector types of row_kernels-inl.h. Only the source files of one instruction set include this.
#pragma once

#include <stdint.h>

#include "kernels/cpu/sampling/row_kernels.h"

namespace quire {
namespace {

typedef float F16 __attribute__((vector_size(64)));
typedef float F8 __attribute__((vector_size(32)));
typedef float F4 __attribute__((vector_size(16)));
typedef int32_t I16 __attribute__((vector_size(64)));
typedef uint32_t U16 __attribute__((vector_size(64)));

// The 64-bit products of 32-bit lanes.
struct Wide {
  U16 low;
  U16 high;
};

#define QUIRE_ROW static inline __attribute__((always_inline, unused))

// Does RowLanes::put_lanes() one lane after the other.
QUIRE_ROW int64_t put_each_lane(F16 x, uint32_t lanes, float* out) {
  int64_t count = 0;
  for (; lanes != 0; lanes &= lanes - 1) out[count++] = x[__builtin_ctz(lanes)];
  return count;
}

}  // namespace
}  // namespace quire
