// The vector types of row_kernels.inc. For its including files only.
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

}  // namespace
}  // namespace quire
