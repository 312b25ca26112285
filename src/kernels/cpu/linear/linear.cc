#include "kernels/api/linear.h"

#include <algorithm>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/linear_columns.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/quant/quant_layout.h"
#include "kernels/cpu/quant/quant_linear.h"

namespace quire {
namespace {

using cpu::kPanelWidth;
using cpu::LinearKernels;

// Up to here each thread packs the activations for itself, which costs less than a barrier between
// packing and use.
constexpr int64_t kPrivateRows = 12;

// From here on packed activations of a large K do not stay in a cache of their own core.
constexpr int64_t kManyRows = 128;

// Where row blocks of a kernel begin.
class RowBlocks {
 public:
  RowBlocks(int64_t m, const LinearKernels& kernels) : m_(m) {
    const int64_t most_rows = cpu::rows_per_block(kernels, m);
    count_ = (m + most_rows - 1) / most_rows;
  }
  int64_t count() const { return count_; }
  int64_t first_row(int64_t block) const {
    return block * (m_ / count_) + std::min(block, m_ % count_);
  }
  int64_t block_of(int64_t row) const {
    const int64_t large_rows = m_ % count_ * (m_ / count_ + 1);
    if (row < large_rows) return row / (m_ / count_ + 1);
    return m_ % count_ + (row - large_rows) / (m_ / count_);
  }

 private:
  int64_t m_;
  int64_t count_;
};

// The activations of one call, packed: the rows, then for int8 their scales.
struct PackedX {
  static int64_t bytes(const LinearKernels& kernels, const WeightSpec& spec, int64_t m) {
    return cpu::round_up(m * row_bytes(kernels, spec), 64) +
           cpu::round_up(m * int64_t{sizeof(float)}, 64);
  }
  static int64_t row_bytes(const LinearKernels& kernels, const WeightSpec& spec) {
    return cpu::padded_k(spec) * kernels.x_bytes + kernels.x_padding;
  }
  PackedX(const LinearKernels& kernels, const WeightSpec& spec, int64_t m, uint8_t* memory)
      : rows(memory),
        scales(reinterpret_cast<float*>(memory + cpu::round_up(m * row_bytes(kernels, spec), 64))) {
  }
  uint8_t* rows;
  float* scales;
};

void pack_rows(const LinearParams& params, const LinearKernels& kernels, WorkRange range,
               const PackedX& out) {
  const WeightSpec& spec = params.weight->spec;
  const RowBlocks blocks(params.num_rows, kernels);
  const auto pack = spec.compute == ComputeType::kBF16 ? kernels.pack_x_bf16 : kernels.pack_x;
  const float* x = params.x;
  for (int64_t row = range.begin; row < range.end;) {
    const int64_t block = blocks.block_of(row);
    const int64_t first = blocks.first_row(block);
    const int64_t end = std::min(blocks.first_row(block + 1), range.end);
    pack({.x = x + row * params.x_stride,
          .x_stride = params.x_stride,
          .num_rows = end - row,
          .first_row = row,
          .block_row = first,
          .block_rows = blocks.first_row(block + 1) - first,
          .m = params.num_rows,
          .k = spec.k,
          .padded_k = cpu::padded_k(spec),
          .out = out.rows,
          .scales = out.scales + row});
    row = end;
  }
}

// The rows that `thread` packs: whole blocks where rows of a block share cache lines.
WorkRange rows_to_pack(int64_t m, const LinearKernels& kernels, int thread, int num_threads) {
  if (kernels.rows_apart) return split_work(m, 1, thread, num_threads);
  const RowBlocks blocks(m, kernels);
  const WorkRange mine = split_work(blocks.count(), 1, thread, num_threads);
  return {blocks.first_row(mine.begin), blocks.first_row(mine.end)};
}

void multiply(const LinearParams& params, const LinearKernels& kernels, const PackedX& x,
              uint8_t* scratch, WorkRange columns, float* y, int64_t y_stride) {
  const WeightSpec& spec = params.weight->spec;
  const int64_t panel_bytes = cpu::padded_k(spec) * kPanelWidth * size_bytes(spec.dtype);
  const int64_t first_panel = columns.begin / kPanelWidth;
  const bool int8 = spec.dtype == DType::kI8;
  const auto multiply_panels =
      int8 ? kernels.panels_int8 : kernels.panels[cpu::storage_of(spec.dtype)];
  const cpu::Int8Tail tail = cpu::int8_tail(*params.weight);
  multiply_panels(
      {.x = x.rows,
       .m = params.num_rows,
       .row_block = cpu::rows_per_block(kernels, params.num_rows),
       .padded_k = cpu::padded_k(spec),
       .panels = static_cast<const uint8_t*>(params.weight->data) + first_panel * panel_bytes,
       .num_panels = (columns.end - columns.begin + kPanelWidth - 1) / kPanelWidth,
       .y = y,
       .y_stride = y_stride,
       .num_columns = columns.end - columns.begin,
       .bias = params.bias == nullptr ? nullptr : params.bias + columns.begin,
       .accumulate = params.accumulate,
       .x_scales = int8 ? x.scales : nullptr,
       .w_scales = int8 ? tail.scales + columns.begin : nullptr,
       .w_sums = int8 ? tail.sums + columns.begin : nullptr,
       .scratch = scratch});
}

void dense_linear(const HostStream& cpu_stream, const LinearParams& params) {
  const WeightSpec& spec = params.weight->spec;
  const int64_t m = params.num_rows;
  const LinearKernels& kernels = cpu::linear_kernels(cpu_stream.isa(), spec);
  auto* workspace = reinterpret_cast<uint8_t*>(
      cpu::round_up(static_cast<int64_t>(reinterpret_cast<uintptr_t>(params.workspace)), 64));
  const int64_t x_bytes = PackedX::bytes(kernels, spec, m);
  const bool share = m > kPrivateRows;
  if (share) {
    cpu_stream.team().run([&](int thread) {
      pack_rows(params, kernels, rows_to_pack(m, kernels, thread, cpu_stream.team().size()),
                PackedX(kernels, spec, m, workspace));
    });
  }
  const int64_t least_panels = m > kManyRows ? kernels.least_panels : 1;
  cpu::run_dealt(cpu_stream, params, kPanelWidth, least_panels, [&](int thread, int num_threads) {
    const PackedX x(kernels, spec, m, workspace + (share ? 0 : thread * x_bytes));
    if (!share) pack_rows(params, kernels, {0, m}, x);
    const int64_t packed_bytes = share ? x_bytes : cpu_stream.team().size() * x_bytes;
    uint8_t* scratch = workspace + packed_bytes + thread * linear_scratch_bytes(kernels, m);
    cpu::multiply_columns(cpu_stream, params, kPanelWidth, thread, num_threads,
                          [&](WorkRange columns, float* y, int64_t y_stride) {
                            multiply(params, kernels, x, scratch, columns, y, y_stride);
                          });
  });
}

// The more rows a gated product has, the fewer columns wait for their gate side by side
// (kSlabBytes), and for every such slab all packed rows are read. On tiles that takes longer than
// the products, so there rows go in parts; their kernels read the weights once for so many rows
// anyway.
constexpr int64_t kMostGatedRows = 512;

int64_t num_row_parts(Isa isa, const LinearParams& params) {
  const bool has_tiles = cpu::vector_isa(isa) != isa;
  if (params.gate == nullptr || !has_tiles) return 1;
  return (params.num_rows + kMostGatedRows - 1) / kMostGatedRows;
}

LinearParams rows_of(const LinearParams& params, int64_t begin, int64_t end) {
  LinearParams rows = params;
  rows.x = static_cast<const float*>(params.x) + begin * params.x_stride;
  rows.y = static_cast<float*>(params.y) + begin * params.y_stride;
  rows.num_rows = end - begin;
  return rows;
}

void multiply_rows(Stream& stream, const LinearParams& params) {
  params.weight->spec.quant.is_quantized() ? cpu::quant_linear(stream, params)
                                           : dense_linear(cpu::host(stream), params);
}

}  // namespace

int64_t packed_weight_bytes(const WeightSpec& spec) {
  if (spec.quant.is_quantized()) return cpu::quant_packed_bytes(spec);
  const int64_t n = cpu::round_up(spec.n, kPanelWidth);
  const int64_t tail = spec.dtype == DType::kI8 ? n * cpu::kInt8TailBytes : 0;
  return n * cpu::padded_k(spec) * size_bytes(spec.dtype) + tail;
}

// Gate and up begin with a panel.
bool cpu::linear_gates(const Stream& /*stream*/, const WeightSpec& spec) {
  const int64_t panel = spec.quant.is_quantized() ? kQuantPanel : kPanelWidth;
  return spec.n % (2 * panel) == 0;
}

int64_t cpu::linear_workspace_bytes(const Stream& stream, int64_t max_rows,
                                    const WeightSpec& spec) {
  if (spec.quant.is_quantized()) return quant_linear_workspace_bytes(stream, max_rows, spec);
  const HostStream& host_stream = cpu::host(stream);
  const LinearKernels& kernels = cpu::linear_kernels(host_stream.isa(), spec);
  const int64_t threads = host_stream.team().size();
  const int64_t packed =
      std::max(PackedX::bytes(kernels, spec, max_rows),
               threads * PackedX::bytes(kernels, spec, std::min(max_rows, kPrivateRows)));
  return packed + threads * cpu::linear_scratch_bytes(kernels, max_rows) + 64;
}

void cpu::linear(Stream& stream, const LinearParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  const WeightSpec& spec = params.weight->spec;
  const int64_t m = params.num_rows;
  if (m == 0 || spec.n == 0) return;
  QUIRE_DCHECK(params.workspace != nullptr && params.x_stride >= spec.k &&
                   params.y_stride >= cpu::dealt_columns(params),
               "[linear] x_stride {} (k {}), y_stride {} (n {})", params.x_stride, spec.k,
               params.y_stride, cpu::dealt_columns(params));
  QUIRE_CHECK(params.gate == nullptr || (params.greatest == nullptr && !params.accumulate &&
                                         cpu::linear_gates(stream, spec)),
              "linear: a gate over {} columns that are kept or added", spec.n);
  const int num_threads = cpu_stream.team().size();
  if (params.greatest != nullptr) {
    QUIRE_CHECK(!params.accumulate, "linear: the greatest of what is added to nothing only");
    std::fill_n(params.greatest, num_threads * m, RowGreatest{});
  }
  const int64_t num_parts = num_row_parts(cpu_stream.isa(), params);
  for (int64_t part = 0; part < num_parts; ++part) {
    multiply_rows(stream, rows_of(params, m * part / num_parts, m * (part + 1) / num_parts));
  }
  if (params.greatest != nullptr) cpu::merge_threads(params.greatest, m, num_threads);
}

}  // namespace quire
