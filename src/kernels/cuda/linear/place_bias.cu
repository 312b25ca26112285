#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear/place_bias.h"
#include "kernels/cuda/types.h"

namespace quire::cuda {
namespace {

template <typename T>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(256, 1) place_bias_kernel(T* y, int64_t y_stride, const float* bias,
                                                          int64_t num_rows, int64_t n, bool adds) {
  ptx::wait_for_previous_kernel();
  const int64_t threads = int64_t{ptx::num_blocks()} * ptx::block_threads();
  for (int64_t i = int64_t{ptx::block_index()} * ptx::block_threads() + ptx::thread_index();
       i < num_rows * n; i += threads) {
    T& value = y[i / n * y_stride + i % n];
    value = narrow<T>(adds ? widen(value) + bias[i % n] : bias[i % n]);
  }
}

}  // namespace

void place_bias(GpuStream& stream, const LinearParams& p) {
  const int64_t n = p.weight->spec.n;
  with_float_type(p.y.dtype(), [&](auto type) {
    using T = decltype(type);
    launch<place_bias_kernel<T>>(
        stream, {.num_blocks = blocks_for(stream, p.num_rows * n, 256, 8), .num_threads = 256},
        static_cast<T*>(p.y.data()), p.y_stride, p.bias, p.num_rows, n, p.accumulate);
  });
}

}  // namespace quire::cuda
