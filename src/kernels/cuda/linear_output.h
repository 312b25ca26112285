// How linear kernels write a finished sum.
#pragma once

#include "kernels/cuda/device_code.h"

namespace quire::cuda {

// Writes y[row, output] = bias + sum, added to the present value if args.accumulate. Rows and
// outputs past the ends are dropped. Args has n, num_rows, bias, y, y_stride, y_is_float and
// accumulate.
template <class Args>
QUIRE_DEVICE void store_output(const Args& args, int64_t row, int64_t output, float sum) {
  if (row >= args.num_rows || output >= args.n) return;
  if (args.bias != nullptr) sum = ptx::add(sum, args.bias[output]);
  const int64_t at = row * args.y_stride + output;
  if (args.y_is_float) {
    float& y = static_cast<float*>(args.y)[at];
    y = args.accumulate ? ptx::add(y, sum) : sum;
  } else {
    bfloat16& y = static_cast<bfloat16*>(args.y)[at];
    y = narrow<bfloat16>(args.accumulate ? ptx::add(widen(y), sum) : sum);
  }
}

}  // namespace quire::cuda
