#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear/bf16_product.h"
#include "kernels/cuda/linear/few_rows_linear.h"
#include "kernels/cuda/linear_output.h"

namespace quire::cuda {
namespace {

constexpr int kSlices = 8;  // of K, one for each warp
constexpr int kThreads = kSlices * 32;
constexpr int kOutputs = 16;      // of a block
constexpr int kChunkInputs = 32;  // 8 for each lane of a quad
constexpr int kChunksAhead = 4;   // of the weight, in flight at once
using Chunk = Elements<4, uint32_t>;

// The lane's part of a chunk, for two outputs, lane / 4 and lane / 4 + 8: of 32 inputs the eight
// from lane % 4 * 8 on. The order of inputs among a product's columns does not change the sum, as
// long as x has the same order.
struct WeightChunk {
  Chunk low;
  Chunk high;
};

// Adds a chunk to the sums, with two products of 16 inputs.
template <int kRowTiles>
QUIRE_DEVICE void add_chunk(const Bf16Product& args, const WeightChunk& weight, int64_t input,
                            float (&sums)[kRowTiles][4]) {
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
    const int64_t row = r * 8 + ptx::thread_index() % 32 / 4;
    Chunk x = {};
    if (row < args.num_rows)
      x = *reinterpret_cast<const Chunk*>(args.x + row * args.x_stride + input);
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint32_t a[4] = {weight.low.at[i], weight.high.at[i], weight.low.at[i + 1],
                             weight.high.at[i + 1]};
      ptx::multiply_tiles(sums[r], a, x.at[i], x.at[i + 1]);
    }
  }
}

// A block computes 16 outputs of all rows; its warps' sums over their slices of K are added in
// order.
template <int kRowTiles>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 2) few_rows_kernel(const Bf16Product args) {
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
  const int64_t first_output = int64_t{ptx::block_index()} * kOutputs;
  const auto weight_row = [&](int64_t output) {
    return args.weight + (output < args.n ? output : args.n - 1) * args.k + lane % 4 * 8;
  };
  const bfloat16* low = weight_row(first_output + lane / 4);
  const bfloat16* high = weight_row(first_output + lane / 4 + 8);
  const int64_t num_chunks = args.k / kChunkInputs;
  const int64_t begin = num_chunks * warp / kSlices;
  const int64_t end = num_chunks * (warp + 1) / kSlices;
  WeightChunk ahead[kChunksAhead] = {};
  const auto fetch = [&](int64_t chunk, WeightChunk& to) {
    if (chunk >= end) return;
    to.low = *reinterpret_cast<const Chunk*>(low + chunk * kChunkInputs);
    to.high = *reinterpret_cast<const Chunk*>(high + chunk * kChunkInputs);
  };
#pragma unroll
  for (int j = 0; j < kChunksAhead; ++j) fetch(begin + j, ahead[j]);
  ptx::wait_for_previous_kernel();  // x, and y if it accumulates
  ptx::let_next_kernel_start();

  float sums[kRowTiles][4] = {};
  for (int64_t chunk = begin; chunk < end; chunk += kChunksAhead) {
#pragma unroll
    for (int j = 0; j < kChunksAhead; ++j) {
      if (chunk + j >= end) continue;
      add_chunk<kRowTiles>(args, ahead[j], (chunk + j) * kChunkInputs + lane % 4 * 8, sums);
      fetch(chunk + j + kChunksAhead, ahead[j]);
    }
  }
  auto* memory = reinterpret_cast<float*>(ptx::shared_memory());  // [slice][sum of a lane][lane]
  constexpr int kSums = kRowTiles * 4;
#pragma unroll
  for (int at = 0; at < kSums; ++at) memory[(warp * kSums + at) * 32 + lane] = sums[at / 4][at % 4];
  ptx::sync_threads();
  if (warp >= kSums) return;
  const int at = warp;
  float sum = memory[at * 32 + lane];
#pragma unroll
  for (int slice = 1; slice < kSlices; ++slice)
    sum = ptx::add(sum, memory[(slice * kSums + at) * 32 + lane]);
  const int i = at % 4;
  store_output(args, at / 4 * 8 + lane % 4 * 2 + i % 2, first_output + lane / 4 + i / 2 * 8, sum);
}

template <int kRowTiles>
void launch_rows(Stream& stream, const Bf16Product& args) {
  static_assert(kRowTiles * 4 <= kSlices, "a warp per sum at the end");
  launch<few_rows_kernel<kRowTiles>>(
      stream,
      {.num_blocks = (args.n + kOutputs - 1) / kOutputs,
       .num_threads = kThreads,
       .shared_bytes = kSlices * kRowTiles * 4 * 32 * int64_t{sizeof(float)}},
      args);
}

}  // namespace

bool fits_few_rows(const LinearParams& p) {
  const WeightSpec& spec = p.weight->spec;
  return p.num_rows <= kMostFewRows && !spec.quant.is_quantized() && spec.dtype == DType::kBF16 &&
         p.x.dtype() == DType::kBF16 && spec.k % kChunkInputs == 0 && p.x_stride % 8 == 0 &&
         reinterpret_cast<uintptr_t>(p.x.data()) % 16 == 0 &&
         reinterpret_cast<uintptr_t>(p.weight->data) % 16 == 0;
}

void few_rows_linear(Stream& stream, const LinearParams& p) {
  if (p.num_rows == 0 || p.weight->spec.n == 0) return;
  QUIRE_CHECK(fits_few_rows(p), "[few_rows_linear] {} rows of [{}, {}]", p.num_rows,
              p.weight->spec.n, p.weight->spec.k);
  const Bf16Product args = bf16_product(p);
  if (p.num_rows <= 8) return launch_rows<1>(stream, args);
  launch_rows<2>(stream, args);
}

}  // namespace quire::cuda
