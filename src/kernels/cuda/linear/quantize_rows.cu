// Activations to FP8: a block per row, which finds the largest magnitude and then rounds.
#include "kernels/cuda/float8.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear/fp8_linear.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;
constexpr float kLargestE4M3 = 448.0f;

struct QuantizeArgs {
  const bfloat16* x = nullptr;
  int64_t x_stride = 0;
  int64_t k = 0;
  uint8_t* codes = nullptr;
  float* scales = nullptr;
};

QUIRE_DEVICE float magnitude(float x) {
  return ptx::bits_to_float(ptx::float_to_bits(x) & 0x7fffffffu);
}

// The same in every thread; NaN counts as nothing.
QUIRE_DEVICE float block_max(float x, float* scratch) {
  x = warp_max(x);
  if (ptx::thread_index() % 32 == 0) scratch[ptx::thread_index() / 32] = x;
  ptx::sync_threads();
  const int lane = ptx::thread_index() % 32;
  return warp_max(lane < kThreads / 32 ? scratch[lane] : 0.0f);
}

template <int N>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1) quantize_kernel(const QuantizeArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int64_t row = ptx::block_index();
  const bfloat16* x = args.x + row * args.x_stride;
  uint8_t* codes = args.codes + row * args.k;
  float values[N];
  float largest = 0.0f;
  for (int64_t i = int64_t{ptx::thread_index()} * N; i < args.k; i += int64_t{kThreads} * N) {
    load<N>(x + i, values);
#pragma unroll
    for (const float value : values) largest = ptx::max(largest, magnitude(value));
  }
  largest = block_max(largest, reinterpret_cast<float*>(ptx::shared_memory()));
  const float scale = largest == 0.0f ? 1.0f : ptx::divide(largest, kLargestE4M3);
  for (int64_t i = int64_t{ptx::thread_index()} * N; i < args.k; i += int64_t{kThreads} * N) {
    load<N>(x + i, values);
    Elements<N, uint8_t> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.at[j] = narrow_e4m3(ptx::divide(values[j], scale));
    *reinterpret_cast<Elements<N, uint8_t>*>(codes + i) = out;
  }
  if (ptx::thread_index() == 0) args.scales[row] = scale;
}

}  // namespace

void quantize_rows(Stream& stream, ConstActivations x, int64_t x_stride, int64_t num_rows,
                   int64_t k, const Fp8Rows& out) {
  QUIRE_CHECK(x.dtype() == DType::kBF16, "[quantize_rows] a GPU wants bf16 inputs, got {}",
              to_string(x.dtype()));
  const QuantizeArgs args{.x = static_cast<const bfloat16*>(x.data()),
                          .x_stride = x_stride,
                          .k = k,
                          .codes = out.codes,
                          .scales = out.scales};
  const LaunchShape shape{.num_blocks = num_rows,
                          .num_threads = kThreads,
                          .shared_bytes = kThreads / 32 * int64_t{sizeof(float)}};
  const bool in_eights =
      k % 8 == 0 && x_stride % 8 == 0 && reinterpret_cast<uintptr_t>(x.data()) % 16 == 0;
  in_eights ? launch<quantize_kernel<8>>(stream, shape, args)
            : launch<quantize_kernel<1>>(stream, shape, args);
}

}  // namespace quire::cuda
