// int8_linear(): converts activations to int8, one block per row. Then each block multiplies 32
// rows and 64 outputs by tensor cores, and panels of 128 inputs go through a ring in shared memory.
#include <cmath>

#include "kernels/cuda/attention/swizzle.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear/int8_linear.h"
#include "kernels/cuda/linear_output.h"

namespace quire::cuda {
namespace {

constexpr int kQuantizeThreads = 256;
constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kRows = 32;     // of a block
constexpr int kOutputs = 64;  // of a block, 16 for each warp
constexpr int kInputs = 128;  // of a panel
constexpr int kChunks = kInputs / 16;
constexpr int kStages = 3;
constexpr int kStageBytes = (kRows + kOutputs) * kInputs;

struct QuantizeArgs {
  const bfloat16* x;
  int64_t x_stride;
  int64_t k;
  int8_t* codes;
  float* scales;
};

// Magnitudes are compared as integers; in that order infinity is above all numbers, and NaN above
// infinity.
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kQuantizeThreads, 1) quantize_int8_kernel(const QuantizeArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  auto* scratch = reinterpret_cast<uint32_t*>(ptx::shared_memory());
  const int64_t row = ptx::block_index();
  const bfloat16* x = args.x + row * args.x_stride;
  uint32_t bits = 0;
  for (int64_t i = ptx::thread_index(); i < args.k; i += kQuantizeThreads) {
    const uint32_t magnitude = x[i].bits & 0x7fffu;
    bits = magnitude > bits ? magnitude : bits;
  }
  bits = ptx::reduce_max(bits);
  if (ptx::thread_index() % 32 == 0) scratch[ptx::thread_index() / 32] = bits;
  ptx::sync_threads();
  const int lane = ptx::thread_index() % 32;
  bits = ptx::reduce_max(lane < kQuantizeThreads / 32 ? scratch[lane] : 0u);
  constexpr uint32_t kInfinity = 0x7f80u;
  const bool is_finite = bits < kInfinity;
  const float largest = ptx::bits_to_float(bits << 16);
  const float scale = bits == 0 ? 1.0f : ptx::divide(largest, 127.0f);
  for (int64_t i = ptx::thread_index(); i < args.k; i += kQuantizeThreads) {
    const float code = is_finite ? rintf(ptx::divide(widen(x[i]), scale)) : 0.0f;
    args.codes[row * args.k + i] = static_cast<int8_t>(code);
  }
  if (ptx::thread_index() == 0)
    args.scales[row] = is_finite ? scale : ptx::bits_to_float(0x7fc00000u);
}

struct Int8Args {
  const int8_t* x;  // [M, K]
  const float* x_scales;
  const int8_t* weight;  // [N, K]
  const float* weight_scales;
  int64_t k;
  int64_t n;
  int64_t num_rows;
  const float* bias;
  void* y;
  int64_t y_stride;
  bool y_is_float;
  bool accumulate;
  int32_t row_tiles;
};

// Starts copying a panel of `count` rows of codes, with zeros past the ends.
QUIRE_DEVICE void fetch_panel(const int8_t* codes, int64_t k, int64_t first_row, int64_t end_row,
                              int64_t first_input, int count, uint8_t* to) {
  for (int i = ptx::thread_index(); i < count * kChunks; i += kThreads) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    const int64_t input = first_input + chunk * 16;
    const bool valid = first_row + row < end_row && input < k;
    const int8_t* from = valid ? codes + (first_row + row) * k + input : codes;
    ptx::copy_async_16(to + swizzled_offset(row, chunk, kChunks), from, valid);
  }
}

// Adds the products of a panel to the warp's sums, of 16 rows and 8 outputs each.
QUIRE_DEVICE void multiply_panel(const uint8_t* x, const uint8_t* weight,
                                 int32_t (&sums)[2][2][4]) {
  const int lane = ptx::thread_index() % 32;
  const int first_output = ptx::thread_index() / 32 * (kOutputs / kWarps);
#pragma unroll
  for (int chunk = 0; chunk < kChunks; chunk += 2) {  // 16 inputs each
    uint32_t b[4];
    ptx::load_matrices(b, weight + swizzled_offset(first_output + lane / 16 * 8 + lane % 8,
                                                   chunk + lane / 8 % 2, kChunks));
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      uint32_t a[4];
      ptx::load_matrices(
          a, x + swizzled_offset(m * 16 + lane / 8 % 2 * 8 + lane % 8, chunk + lane / 16, kChunks));
      ptx::multiply_int8_tiles(sums[m][0], a, b[0], b[1]);
      ptx::multiply_int8_tiles(sums[m][1], a, b[2], b[3]);
    }
  }
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 4) int8_kernel(const Int8Args args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  uint8_t* memory = ptx::shared_memory();
  const int64_t first_row = int64_t{ptx::block_index()} % args.row_tiles * kRows;
  const int64_t first_output = int64_t{ptx::block_index()} / args.row_tiles * kOutputs;
  const auto num_panels = static_cast<int>((args.k + kInputs - 1) / kInputs);
  const auto fetch = [&](int panel) {
    uint8_t* stage = memory + panel % kStages * kStageBytes;
    const int64_t input = int64_t{panel} * kInputs;
    if (panel < num_panels) {
      fetch_panel(args.x, args.k, first_row, args.num_rows, input, kRows, stage);
      fetch_panel(args.weight, args.k, first_output, args.n, input, kOutputs,
                  stage + kRows * kInputs);
    }
    ptx::copy_async_commit();
  };
#pragma unroll
  for (int panel = 0; panel < kStages - 1; ++panel) fetch(panel);
  int32_t sums[2][2][4] = {};
  for (int panel = 0; panel < num_panels; ++panel) {
    ptx::copy_async_wait<kStages - 2>();
    ptx::sync_threads();
    fetch(panel + kStages - 1);
    const uint8_t* stage = memory + panel % kStages * kStageBytes;
    multiply_panel(stage, stage + kRows * kInputs, sums);
  }
  ptx::copy_async_wait<0>();
  const int lane = ptx::thread_index() % 32;
  const int64_t warp_output = first_output + ptx::thread_index() / 32 * (kOutputs / kWarps);
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int64_t row = first_row + i / 8 * 16 + i % 4 / 2 * 8 + lane / 4;
    const int64_t output = warp_output + i / 4 % 2 * 8 + lane % 4 * 2 + i % 2;
    if (row >= args.num_rows || output >= args.n) continue;
    const float scale = ptx::multiply(args.x_scales[row], args.weight_scales[output]);
    const auto sum = static_cast<float>(sums[i / 8][i / 4 % 2][i % 4]);
    store_output(args, row, output, ptx::multiply(sum, scale));
  }
}

}  // namespace

void quantize_int8_rows(Stream& stream, ConstActivations x, int64_t x_stride, int64_t num_rows,
                        int64_t k, const Fp8Rows& out) {
  QUIRE_CHECK(x.dtype() == DType::kBF16, "[quantize_int8_rows] a GPU wants bf16 inputs, got {}",
              to_string(x.dtype()));
  launch<quantize_int8_kernel>(stream,
                               {.num_blocks = num_rows,
                                .num_threads = kQuantizeThreads,
                                .shared_bytes = 32 * sizeof(uint32_t)},
                               QuantizeArgs{.x = static_cast<const bfloat16*>(x.data()),
                                            .x_stride = x_stride,
                                            .k = k,
                                            .codes = reinterpret_cast<int8_t*>(out.codes),
                                            .scales = out.scales});
}

void int8_linear(Stream& stream, const LinearParams& p) {
  const WeightSpec& spec = p.weight->spec;
  if (p.num_rows == 0) return;
  QUIRE_CHECK(p.gate == nullptr && fits_int8_products(spec), "[int8_linear] weight [{}, {}]",
              spec.n, spec.k);
  const Fp8Rows x = fp8_rows(p.workspace, p.num_rows, spec.k);
  quantize_int8_rows(stream, p.x, p.x_stride, p.num_rows, spec.k, x);
  const auto* weight = static_cast<const uint8_t*>(p.weight->data);
  const auto row_tiles = static_cast<int32_t>((p.num_rows + kRows - 1) / kRows);
  const Int8Args args{
      .x = reinterpret_cast<const int8_t*>(x.codes),
      .x_scales = x.scales,
      .weight = reinterpret_cast<const int8_t*>(weight),
      .weight_scales = reinterpret_cast<const float*>(weight + fp8_weight_layout(spec).scales_at),
      .k = spec.k,
      .n = spec.n,
      .num_rows = p.num_rows,
      .bias = p.bias,
      .y = p.y.data(),
      .y_stride = p.y_stride,
      .y_is_float = p.y.dtype() == DType::kF32,
      .accumulate = p.accumulate,
      .row_tiles = row_tiles};
  launch<int8_kernel>(stream,
                      {.num_blocks = row_tiles * ((spec.n + kOutputs - 1) / kOutputs),
                       .num_threads = kThreads,
                       .shared_bytes = kStages * kStageBytes},
                      args);
}

}  // namespace quire::cuda
