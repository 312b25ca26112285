// Copies of rows and values, and factors of queries by position.
#include <cmath>
#include <cstdint>

#include "kernels/cuda/element_loop.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/types.h"

namespace quire::cuda {
namespace {

constexpr int kFloatsAtOnce = 256;  // passed in a kernel's parameters

template <typename X, typename Out>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kElementThreads, 1)
    copy_rows_kernel(const X* x, int64_t x_stride, Out* out, int64_t out_stride,
                     const int32_t* positions, int64_t num_tokens, int64_t size) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  for (int64_t i = global_thread(); i < num_tokens * size; i += num_global_threads()) {
    const int64_t token = i / size;
    const int64_t column = i % size;
    const bool is_zero = positions != nullptr && positions[token] == 0;
    out[token * out_stride + column] =
        narrow<Out>(is_zero ? 0.0f : widen(x[token * x_stride + column]));
  }
}

struct FloatsArgs {
  float values[kFloatsAtOnce];
  float* out;
  int32_t count;
};

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kFloatsAtOnce, 1) place_floats_kernel(const FloatsArgs args) {
  ptx::wait_for_previous_kernel();
  if (ptx::thread_index() < args.count)
    args.out[ptx::thread_index()] = args.values[ptx::thread_index()];
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kElementThreads, 1) query_scales_kernel(const QueryScalesParams p) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  for (int64_t i = global_thread(); i < p.num_tokens; i += num_global_threads()) {
    const auto spans = static_cast<double>((p.positions[i] + p.first) / p.span);
    p.out[i] = static_cast<float>(1.0 + p.beta * log1p(spans));
  }
}

}  // namespace

void copy_rows(Stream& stream, const CopyRowsParams& p) {
  if (p.num_tokens == 0 || p.size == 0) return;
  with_float_type(p.x.dtype(), [&](auto x_type) {
    with_float_type(p.out.dtype(), [&](auto out_type) {
      using X = decltype(x_type);
      using Out = decltype(out_type);
      launch<copy_rows_kernel<X, Out>>(stream, element_shape(stream, p.num_tokens * p.size),
                                       static_cast<const X*>(p.x.data()), p.x_stride,
                                       static_cast<Out*>(p.out.data()), p.out_stride, p.positions,
                                       p.num_tokens, p.size);
    });
  });
}

void place_floats(Stream& stream, const PlaceFloatsParams& p) {
  for (int64_t first = 0; first < p.count; first += kFloatsAtOnce) {
    FloatsArgs args{};
    args.count = static_cast<int32_t>(std::min<int64_t>(kFloatsAtOnce, p.count - first));
    args.out = p.out + first;
    std::copy_n(p.values + first, args.count, args.values);
    launch<place_floats_kernel>(stream, {.num_blocks = 1, .num_threads = kFloatsAtOnce}, args);
  }
}

void query_scales(Stream& stream, const QueryScalesParams& p) {
  if (p.num_tokens == 0) return;
  launch<query_scales_kernel>(stream, element_shape(stream, p.num_tokens), p);
}

}  // namespace quire::cuda
