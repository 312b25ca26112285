// step_gates() and sigmoid(), one thread per element.
#include <cmath>
#include <cstdint>

#include "kernels/cuda/element_loop.h"
#include "kernels/cuda/ops.h"

namespace quire::cuda {
namespace {

struct StepArgs {
  const float* x;
  int64_t x_stride;
  const float* bias;
  const float* a;
  int64_t repeat;
  float min_delta;
  float max_delta;
  float* delta;
  float* decay;
  int64_t num_tokens;
  int64_t size;
};

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kElementThreads, 1) step_gates_kernel(const StepArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  for (int64_t at = global_thread(); at < args.num_tokens * args.size; at += num_global_threads()) {
    const int64_t i = at % args.size;
    float x = args.x[at / args.size * args.x_stride + i];
    if (args.bias != nullptr) x = ptx::add(x, args.bias[i]);
    const float softplus = ptx::add(log1pf(expf(x > 0.0f ? -x : x)), ptx::max(x, 0.0f));
    const float delta = ptx::min(ptx::max(softplus, args.min_delta), args.max_delta);
    if (args.delta != nullptr) args.delta[at] = delta;
    if (args.decay != nullptr) args.decay[at] = expf(ptx::multiply(args.a[i / args.repeat], delta));
  }
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kElementThreads, 1)
    sigmoid_kernel(const float* x, int64_t x_stride, float* out, int64_t num_tokens, int64_t size) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  for (int64_t at = global_thread(); at < num_tokens * size; at += num_global_threads())
    out[at] = ptx::divide(1.0f, ptx::add(1.0f, expf(-x[at / size * x_stride + at % size])));
}

}  // namespace

void step_gates(Stream& stream, const StepGatesParams& p) {
  if (p.num_tokens == 0) return;
  launch<step_gates_kernel>(stream, element_shape(stream, p.num_tokens * p.size),
                            StepArgs{.x = p.x,
                                     .x_stride = p.x_stride,
                                     .bias = p.bias,
                                     .a = p.a,
                                     .repeat = p.repeat,
                                     .min_delta = p.min_delta,
                                     .max_delta = p.max_delta,
                                     .delta = p.delta,
                                     .decay = p.decay,
                                     .num_tokens = p.num_tokens,
                                     .size = p.size});
}

void sigmoid(Stream& stream, const SigmoidParams& p) {
  if (p.num_tokens == 0) return;
  const float* const x = p.x;
  launch<sigmoid_kernel>(stream, element_shape(stream, p.num_tokens * p.size), x, p.x_stride, p.out,
                         p.num_tokens, p.size);
}

}  // namespace quire::cuda
