#include "kernels/api/linear.h"

#include <algorithm>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/ops.h"

namespace quire {
namespace {

using cpu::kPanelWidth;
using cpu::LinearKernels;

// Up to here each thread packs the activations for itself, which costs less than a barrier between
// packing and use.
constexpr int64_t kPrivateRows = 12;

int64_t padded_k(const WeightSpec& spec) { return cpu::round_up(spec.k, 2); }
// Floats for one packed row; a multiple of 16 so that each thread's copy starts on its own cache
// line.
int64_t packed_row_floats(const WeightSpec& spec) { return cpu::round_up(spec.k, 16); }

struct RowBlocks {
  int64_t count;
  int64_t small_rows;
  int64_t num_large;
  int64_t first_row(int64_t block) const { return block * small_rows + std::min(block, num_large); }
};
RowBlocks row_blocks(int64_t m, int64_t row_block) {
  const int64_t count = (m + row_block - 1) / row_block;
  return {count, m / count, m % count};
}

void pack_blocks(const LinearParams& params, const LinearKernels& kernels, int64_t begin,
                 int64_t end, float* out) {
  const WeightSpec& spec = params.weight->spec;
  const RowBlocks blocks = row_blocks(params.num_rows, kernels.row_block);
  const auto pack = spec.compute == ComputeType::kBF16 ? kernels.pack_x_bf16 : kernels.pack_x;
  const int64_t words_per_row = kernels.x_is_bf16 ? padded_k(spec) / 2 : padded_k(spec);
  for (int64_t block = begin; block < end; ++block) {
    const int64_t row = blocks.first_row(block);
    pack({.x = params.x + row * params.x_stride,
          .x_stride = params.x_stride,
          .num_rows = blocks.first_row(block + 1) - row,
          .k = spec.k,
          .padded_k = padded_k(spec),
          .out = out + row * words_per_row});
  }
}

void multiply(const LinearParams& params, const LinearKernels& kernels, const void* packed_x,
              WorkRange columns) {
  if (columns.begin >= columns.end) return;
  const WeightSpec& spec = params.weight->spec;
  const int64_t panel_bytes = padded_k(spec) * kPanelWidth * size_bytes(spec.dtype);
  const int64_t first_panel = columns.begin / kPanelWidth;
  kernels.panels[cpu::storage_of(spec.dtype)](
      {.x = packed_x,
       .m = params.num_rows,
       .padded_k = padded_k(spec),
       .panels = static_cast<const uint8_t*>(params.weight->data) + first_panel * panel_bytes,
       .num_panels = (columns.end - columns.begin + kPanelWidth - 1) / kPanelWidth,
       .y = params.y + columns.begin,
       .y_stride = params.y_stride,
       .num_columns = columns.end - columns.begin,
       .bias = params.bias == nullptr ? nullptr : params.bias + columns.begin,
       .accumulate = params.accumulate});
}

}  // namespace

int64_t packed_weight_bytes(const WeightSpec& spec) {
  return cpu::round_up(spec.n, kPanelWidth) * padded_k(spec) * size_bytes(spec.dtype);
}

int64_t cpu::linear_workspace_bytes(const Stream& stream, int64_t max_rows, const WeightSpec& spec) {
  const int64_t threads = cpu::host(stream).team().size();
  const int64_t rows = std::max(max_rows, threads * std::min(max_rows, kPrivateRows));
  return rows * packed_row_floats(spec) * int64_t{sizeof(float)} + 64;
}

void cpu::linear(Stream& stream, const LinearParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  const WeightSpec& spec = params.weight->spec;
  if (params.num_rows == 0 || spec.n == 0) return;
  QUIRE_DCHECK(
      params.workspace != nullptr && params.x_stride >= spec.k && params.y_stride >= spec.n,
      "[linear] x_stride {} (k {}), y_stride {} (n {})", params.x_stride, spec.k, params.y_stride,
      spec.n);
  const LinearKernels& kernels = cpu::linear_kernels(cpu_stream.isa(), spec);
  auto* workspace = reinterpret_cast<float*>(
      cpu::round_up(static_cast<int64_t>(reinterpret_cast<uintptr_t>(params.workspace)), 64));
  const RowBlocks blocks = row_blocks(params.num_rows, kernels.row_block);
  const bool share = params.num_rows > kPrivateRows;
  if (share) {
    cpu_stream.team().run([&](int thread) {
      const WorkRange mine = split_work(blocks.count, 1, thread, cpu_stream.team().size());
      pack_blocks(params, kernels, mine.begin, mine.end, workspace);
    });
  }
  const int64_t work = spec.n * spec.k;
  cpu::run_parallel(cpu_stream, work, 1 << 15, [&](int thread, int num_threads) {
    float* packed = workspace;
    if (!share) {
      packed += thread * params.num_rows * packed_row_floats(spec);
      pack_blocks(params, kernels, 0, blocks.count, packed);
    }
    multiply(params, kernels, packed, split_work(spec.n, kPanelWidth, thread, num_threads));
  });
}

}  // namespace quire
