#include "kernels/cpu/quant/quant_linear.h"

#include <algorithm>

#include "device/isa.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/linear_columns.h"
#include "kernels/cpu/quant/quant_layout.h"

namespace quire::cpu {
namespace {

// Up to here each thread packs the activations for itself, which costs less than a barrier between
// packing and use.
constexpr int64_t kPrivateRows = 12;

CodeKind code_kind(const QuantSpec& spec) {
  if (spec.codebook != Codebook::kLinear) return spec.bits == 8 ? kTable8 : kTable4;
  constexpr CodeKind kByBits[] = {kCode2, kCode3, kCode4, kCode5, kCode6, kCode8, kCode8};
  return kByBits[spec.bits - 2];
}

#ifdef QUIRE_X86_KERNELS
const QuantKernels& avx512_kernels(Isa isa, ComputeType compute, const QuantLayout& layout) {
  static const bool has_vbmi = __builtin_cpu_supports("avx512vbmi");
  if (compute != ComputeType::kBF16) return kQuantAvx512;
  if (uses_avx512_bf16(isa) && has_vbmi) return kQuantAvx512Bf16;
  return uses_avx512_vnni(isa) && sums_in_integers(layout) ? kQuantAvx512Vnni : kQuantAvx512;
}

const QuantKernels& quant_kernels(Isa isa, ComputeType compute, const QuantLayout& layout) {
  if (compute == ComputeType::kBF16) {
    if (isa == Isa::kAmx && has_avx512_fp16()) return kQuantAmx;
    if (isa == Isa::kAmxEmulated) return kQuantAmxEmulated;
  }
  switch (vector_isa(isa)) {
    case Isa::kAvx512Core:
    case Isa::kAvx512Vnni:
    case Isa::kAvx512:
      return avx512_kernels(isa, compute, layout);
    case Isa::kAvx2Core:
    case Isa::kAvx2:
      if (compute != ComputeType::kBF16 || !sums_in_integers(layout)) return kQuantAvx2;
      return uses_avx_vnni(isa) ? kQuantAvx2Vnni : kQuantAvx2Integers;
    default:
      break;
  }
  return kQuantPortable;
}
#else
const QuantKernels& quant_kernels(Isa isa, ComputeType compute, const QuantLayout&) {
  const bool tiles = isa == Isa::kAmxEmulated && compute == ComputeType::kBF16;
  return tiles ? kQuantAmxEmulated : kQuantPortable;
}
#endif

// A call's workspace: packed rows and their groups, shared or one copy per thread, then scratch
// per thread where row blocks are used. All in floats.
struct Workspace {
  Workspace(const QuantKernels& kernels, const QuantLayout& layout, int64_t m, int64_t num_threads)
      : is_shared(m > kPrivateRows),
        x_floats(round_up(m * (layout.padded_k + kernels.x_padding), 16)),
        copy_floats(x_floats + round_up(m * layout.num_groups * kernels.group_slots, 16)),
        scratch_floats(quant_scratch_bytes(kernels, m) / int64_t{sizeof(float)}),
        num_copies(is_shared ? 1 : num_threads),
        num_floats(num_copies * copy_floats + num_threads * scratch_floats) {}
  float* x(float* start, int thread) const {
    return start + (is_shared ? 0 : thread * copy_floats);
  }
  float* groups(float* start, int thread) const { return x(start, thread) + x_floats; }
  float* scratch(float* start, int thread) const {
    return start + num_copies * copy_floats + thread * scratch_floats;
  }

  bool is_shared;
  int64_t x_floats;
  int64_t copy_floats;
  int64_t scratch_floats;
  int64_t num_copies;
  int64_t num_floats;
};

int64_t rows_per_block(const QuantKernels& kernels, const QuantLayout& layout, int64_t m) {
  if (m <= kernels.fused_rows) return m;
  return layout.group_size <= kSmallGroup ? kernels.small_group_rows : kernels.row_block;
}

struct Call {
  const LinearParams& params;
  const QuantKernels& kernels;
  const QuantLayout& layout;
  const QuantWeightView& view;
  QuantRowCut cut;

  // Blocks [begin, end) of the rows. Where the tile kernels scale weights they leave `groups`.
  void pack(WorkRange blocks, float* x, float* groups) const {
    const WeightSpec& spec = params.weight->spec;
    const float* from = params.x;
    for (int64_t block = blocks.begin; block < blocks.end; ++block) {
      const int64_t row = cut.first_row(block);
      kernels.pack_x[spec.compute == ComputeType::kBF16 ? 1 : 0](
          {.x = from + row * params.x_stride,
           .x_stride = params.x_stride,
           .num_rows = cut.first_row(block + 1) - row,
           .column_order = view.column_order,
           .layout = &layout,
           .out = x + row * (layout.padded_k + kernels.x_padding) / 2 * kernels.pair_slots,
           .groups = groups + row * layout.num_groups * kernels.group_slots});
    }
  }

  void multiply(WorkRange columns, const float* x, const float* groups, void* scratch, float* y,
                int64_t y_stride) const {
    const int64_t first_panel = columns.begin / kQuantPanel;
    kernels.panels[code_kind(layout.spec)](
        {.x = x,
         .groups = groups,
         .m = params.num_rows,
         .row_block = rows_per_block(kernels, layout, params.num_rows),
         .layout = &layout,
         .values = view.values,
         .panels = view.panels + first_panel * layout.panel_bytes,
         .num_panels = (columns.end - columns.begin + kQuantPanel - 1) / kQuantPanel,
         .y = y,
         .y_stride = y_stride,
         .num_columns = columns.end - columns.begin,
         .bias = params.bias == nullptr ? nullptr : params.bias + columns.begin,
         .accumulate = params.accumulate,
         .scratch = scratch});
  }
};

}  // namespace

int64_t quant_linear_workspace_bytes(const Stream& stream, int64_t max_rows,
                                     const WeightSpec& spec) {
  const HostStream& host_stream = host(stream);
  const QuantLayout layout = quant_layout(spec);
  const QuantKernels& kernels = quant_kernels(host_stream.isa(), spec.compute, layout);
  const int64_t threads = host_stream.team().size();
  int64_t floats = 0;
  for (const int64_t m : {max_rows, std::min(max_rows, kPrivateRows)}) {
    floats = std::max(floats, Workspace(kernels, layout, m, threads).num_floats);
  }
  return floats * int64_t{sizeof(float)} + 64;
}

void quant_linear(Stream& stream, const LinearParams& params) {
  const HostStream& cpu_stream = host(stream);
  const WeightSpec& spec = params.weight->spec;
  const int64_t m = params.num_rows;
  if (m == 0 || spec.n == 0) return;
  const QuantLayout layout = quant_layout(spec);
  const QuantKernels& kernels = quant_kernels(cpu_stream.isa(), spec.compute, layout);
  const QuantWeightView view = quant_view(*params.weight, layout);
  const int64_t row_block = rows_per_block(kernels, layout, m);
  const Call call{params, kernels, layout, view, quant_row_cut(m, row_block)};
  const int team_size = cpu_stream.team().size();
  const Workspace workspace(kernels, layout, m, team_size);
  auto* start = reinterpret_cast<float*>(
      round_up(static_cast<int64_t>(reinterpret_cast<uintptr_t>(params.workspace)), 64));
  if (workspace.is_shared) {
    cpu_stream.team().run([&](int thread) {
      call.pack(split_work(call.cut.count, 1, thread, team_size), start,
                workspace.groups(start, 0));
    });
  }
  run_dealt(cpu_stream, params, kQuantPanel, 1, [&](int thread, int num_threads) {
    float* x = workspace.x(start, thread);
    float* groups = workspace.groups(start, thread);
    if (!workspace.is_shared) call.pack({0, call.cut.count}, x, groups);
    multiply_columns(cpu_stream, params, kQuantPanel, thread, num_threads,
                     [&](WorkRange columns, float* y, int64_t y_stride) {
                       call.multiply(columns, x, groups, workspace.scratch(start, thread), y,
                                     y_stride);
                     });
  });
}

}  // namespace quire::cpu
