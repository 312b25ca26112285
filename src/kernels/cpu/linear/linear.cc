#include "kernels/api/linear.h"

#include <algorithm>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/linear/product.h"
#include "kernels/cpu/linear_columns.h"
#include "kernels/cpu/ops.h"

namespace quire {
namespace {

using cpu::kPanelWidth;
using cpu::kPrivateRows;

// Outputs of at least this many bytes do not stay in a core's caches until they are read.
constexpr int64_t kPastCachesBytes = 2 << 20;

bool goes_past_caches(const LinearParams& params) {
  const float* y = params.y;
  const int64_t bytes = params.num_rows * cpu::dealt_columns(params) * int64_t{sizeof(float)};
  return !params.accumulate && bytes >= kPastCachesBytes && params.y_stride % 16 == 0 &&
         reinterpret_cast<uintptr_t>(y) % 64 == 0;
}

// Returns the gate for a kernel that applies it.
cpu::GatedPanels gated_panels(Isa isa, const LinearParams& params) {
  return {.activate = cpu::element_kernels(isa).activate,
          .kind = cpu::activation_kind(params.gate->activation),
          .columns = params.weight->spec.n / 2};
}

// Computes linear() with a DenseProduct or a QuantProduct. The workspace holds the packed rows,
// once or for each thread, and then the scratch of each thread.
template <class Product>
void run_product(const HostStream& stream, const LinearParams& params, const Product& product) {
  auto* workspace = reinterpret_cast<uint8_t*>(
      cpu::round_up(static_cast<int64_t>(reinterpret_cast<uintptr_t>(params.workspace)), 64));
  const float* rows = params.x;
  const int team_size = stream.team().size();
  const int64_t x_bytes = product.packed_bytes();
  const bool share = params.num_rows > kPrivateRows;
  if (share) {
    stream.team().run([&](int thread) {
      product.pack_share(thread, team_size, rows, params.x_stride, workspace);
    });
  }
  uint8_t* scratches = workspace + (share ? 1 : team_size) * x_bytes;
  const bool whole = product.gates_itself() && params.greatest == nullptr;
  const cpu::GatedPanels gate =
      whole && params.gate != nullptr ? gated_panels(stream.isa(), params) : cpu::GatedPanels{};
  const bool past_caches = whole && goes_past_caches(params);
  const auto body = [&](int thread, int num_threads) {
    uint8_t* x = workspace + (share ? 0 : thread * x_bytes);
    if (!share) product.pack_share(0, 1, rows, params.x_stride, x);
    uint8_t* scratch = scratches + thread * product.scratch_bytes();
    const auto multiply = [&](WorkRange columns, float* y, int64_t y_stride) {
      product.multiply(columns, x, scratch,
                       {.y = y,
                        .y_stride = y_stride,
                        .bias = params.bias,
                        .accumulate = params.accumulate,
                        .gate = gate.activate == nullptr ? nullptr : &gate,
                        .past_caches = past_caches});
    };
    if (whole) return cpu::multiply_kept(stream, params, thread, multiply);
    cpu::multiply_columns(stream, params, Product::kPanel, thread, num_threads, multiply);
  };
  cpu::run_dealt(stream, params, Product::kPanel, product.least_panels(), body);
}

// With more rows, the slab of a gated product has fewer columns (kSlabBytes), and all packed rows
// are read for each slab. On tiles that takes longer than the products, so there the rows are
// multiplied in parts of this size. Tile kernels read the weights again for each group of so many
// rows in any case.
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

void multiply_rows(const HostStream& stream, const LinearParams& params) {
  cpu::with_product(stream.isa(), *params.weight, params.num_rows,
                    [&](const auto& product) { run_product(stream, params, product); });
}

}  // namespace

int64_t packed_weight_bytes(const WeightSpec& spec) {
  if (spec.quant.is_quantized()) return cpu::quant_packed_bytes(spec);
  const int64_t n = cpu::round_up(spec.n, kPanelWidth);
  const int64_t tail = spec.dtype == DType::kI8 ? n * cpu::kInt8TailBytes : 0;
  return n * cpu::padded_k(spec) * size_bytes(spec.dtype) + tail;
}

// Gate and up must both begin at a panel.
bool cpu::linear_gates(const Stream& /*stream*/, const WeightSpec& spec) {
  const int64_t panel = spec.quant.is_quantized() ? cpu::kQuantPanel : kPanelWidth;
  return spec.n % (2 * panel) == 0;
}

int64_t cpu::linear_workspace_bytes(const Stream& stream, int64_t max_rows,
                                    const WeightSpec& spec) {
  const HostStream& host_stream = cpu::host(stream);
  const int64_t threads = host_stream.team().size();
  const PackedWeight weight{spec, nullptr};
  max_rows = std::max<int64_t>(max_rows, 1);
  const auto packed_bytes = [&](int64_t rows) {
    return cpu::with_product(host_stream.isa(), weight, rows,
                             [](const auto& product) { return product.packed_bytes(); });
  };
  const int64_t scratch =
      cpu::with_product(host_stream.isa(), weight, max_rows,
                        [](const auto& product) { return product.scratch_bytes(); });
  const int64_t packed =
      std::max(packed_bytes(max_rows), threads * packed_bytes(std::min(max_rows, kPrivateRows)));
  return packed + threads * scratch + 64;
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
  QUIRE_CHECK(
      params.gate == nullptr ||
          (params.greatest == nullptr && !params.accumulate && cpu::linear_gates(stream, spec)),
      "[linear] with a gate: expected neither `greatest` nor `accumulate`, and whole panels "
      "of gate and of up, got {} columns",
      spec.n);
  const int num_threads = cpu_stream.team().size();
  if (params.greatest != nullptr) {
    QUIRE_CHECK(!params.accumulate, "[linear] expected `greatest` or `accumulate` alone, got both");
    std::fill_n(params.greatest, num_threads * m, RowGreatest{});
  }
  const int64_t num_parts = num_row_parts(cpu_stream.isa(), params);
  for (int64_t part = 0; part < num_parts; ++part) {
    multiply_rows(cpu_stream, rows_of(params, m * part / num_parts, m * (part + 1) / num_parts));
  }
  if (params.greatest != nullptr) cpu::merge_threads(params.greatest, m, num_threads);
}

}  // namespace quire
