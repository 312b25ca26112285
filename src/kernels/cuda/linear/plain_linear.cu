#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear/bf16_product.h"
#include "kernels/cuda/linear/library/lt_memory.h"
#include "kernels/cuda/linear/plain_linear.h"
#include "kernels/cuda/linear_output.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// A warp computes one output of a row at a time; each lane adds every 32nd product.
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1) plain_linear_kernel(const Bf16Product args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int lane = ptx::thread_index() % 32;
  const int64_t step = int64_t{ptx::num_blocks()} * kWarps;
  for (int64_t i = int64_t{ptx::block_index()} * kWarps + ptx::thread_index() / 32;
       i < args.num_rows * args.n; i += step) {
    const int64_t row = i / args.n;
    const int64_t output = i % args.n;
    const bfloat16* x = args.x + row * args.x_stride;
    const bfloat16* weight = args.weight + output * args.k;
    float sum = 0.0f;
    for (int64_t k = lane; k < args.k; k += 32)
      sum = ptx::multiply_add(widen(x[k]), widen(weight[k]), sum);
    sum = warp_sum(sum);
    if (lane == 0) store_output(args, row, output, sum);
  }
}

}  // namespace

bool are_operands_aligned(const LinearParams& p) {
  return is_lt_operand(p.x.data()) && is_lt_operand(p.weight->data) && is_lt_operand(p.y.data());
}

void plain_linear(Stream& stream, const LinearParams& p) {
  const WeightSpec& spec = p.weight->spec;
  QUIRE_CHECK(p.gate == nullptr && !spec.quant.is_quantized() && spec.dtype == DType::kBF16 &&
                  p.x.dtype() == DType::kBF16,
              "[plain_linear] {} rows of [{}, {}]", p.num_rows, spec.n, spec.k);
  const Bf16Product args = bf16_product(p);
  launch<plain_linear_kernel>(
      stream,
      {.num_blocks = blocks_for(gpu(stream), p.num_rows * spec.n, kWarps, 8),
       .num_threads = kThreads},
      args);
}

}  // namespace quire::cuda
