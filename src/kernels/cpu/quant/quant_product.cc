#include "kernels/cpu/quant/quant_product.h"

#include "device/isa.h"
#include "kernels/cpu/dispatch.h"

namespace quire::cpu {
namespace {

CodeKind code_kind(const QuantSpec& spec) {
  if (spec.codebook != Codebook::kLinear) return spec.bits == 8 ? kTable8 : kTable4;
  constexpr CodeKind kByBits[] = {kCode2, kCode3, kCode4, kCode5, kCode6, kCode8, kCode8};
  return kByBits[spec.bits - 2];
}

#ifdef QUIRE_X86_KERNELS
// Returns the kernels for int8 activations. All of them sum exactly and so give the same sums.
const QuantKernels& code_kernels(Isa isa) {
  const Isa vectors = vector_isa(isa);
  if (uses_avx512_vnni(vectors)) return kQuantAvx512Bytes;
  if (uses_avx_vnni(vectors)) return kQuantAvx2Vnni;
  const bool has_avx2 = vectors == Isa::kAvx2Core || vectors == Isa::kAvx2 ||
                        vectors == Isa::kAvx512Core || vectors == Isa::kAvx512Vnni ||
                        vectors == Isa::kAvx512;
  return has_avx2 ? kQuantAvx2Integers : kQuantPortableCodes;
}

const QuantKernels& avx512_kernels(Isa isa, ComputeType compute, const QuantLayout& layout) {
  static const bool has_vbmi = __builtin_cpu_supports("avx512vbmi");
  if (compute != ComputeType::kBF16) return kQuantAvx512;
  if (uses_avx512_bf16(isa) && has_vbmi) return kQuantAvx512Bf16;
  return uses_avx512_vnni(isa) && sums_in_integers(layout) ? kQuantAvx512Vnni : kQuantAvx512;
}

const QuantKernels& quant_kernels(Isa isa, ComputeType compute, const QuantLayout& layout) {
  if (compute == ComputeType::kInt8) return code_kernels(isa);
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
  if (compute == ComputeType::kInt8) return kQuantPortableCodes;
  const bool tiles = isa == Isa::kAmxEmulated && compute == ComputeType::kBF16;
  return tiles ? kQuantAmxEmulated : kQuantPortable;
}
#endif

int64_t rows_per_block(const QuantKernels& kernels, const QuantLayout& layout, int64_t m) {
  if (m <= kernels.fused_rows) return m;
  return layout.group_size <= kSmallGroup ? kernels.small_group_rows : kernels.row_block;
}

}  // namespace

QuantProduct::QuantProduct(Isa isa, const PackedWeight& weight, int64_t num_rows)
    : weight_(weight),
      layout_(quant_layout(weight.spec)),
      kernels_(quant_kernels(isa, weight.spec.compute, layout_)),
      num_rows_(num_rows),
      row_block_(rows_per_block(kernels_, layout_, num_rows)),
      cut_(quant_row_cut(num_rows, row_block_)) {}

int64_t QuantProduct::packed_bytes() const {
  const int64_t group_floats = round_up(num_rows_ * layout_.num_groups * kernels_.group_slots, 16);
  return (x_floats() + group_floats) * int64_t{sizeof(float)};
}

// Tile kernels that scale weights do not use the groups.
void QuantProduct::pack_block(int64_t block, const float* x, int64_t x_stride,
                              uint8_t* packed) const {
  const int64_t row = first_row(block);
  auto* rows = reinterpret_cast<float*>(packed);
  kernels_.pack_x[static_cast<size_t>(weight_.spec.compute)](
      {.x = x,
       .x_stride = x_stride,
       .num_rows = first_row(block + 1) - row,
       .column_order = quant_view(weight_, layout_).column_order,
       .layout = &layout_,
       .out = rows + row * (layout_.padded_k + kernels_.x_padding) / 2 * kernels_.pair_slots,
       .groups = groups(packed) + row * layout_.num_groups * kernels_.group_slots});
}

void QuantProduct::pack_share(int thread, int num_threads, const float* x, int64_t x_stride,
                              uint8_t* packed) const {
  const WorkRange blocks = split_work(num_blocks(), 1, thread, num_threads);
  for (int64_t block = blocks.begin; block < blocks.end; ++block) {
    pack_block(block, x + first_row(block) * x_stride, x_stride, packed);
  }
}

void QuantProduct::multiply(WorkRange columns, uint8_t* packed, uint8_t* scratch,
                            const ProductOutput& out) const {
  const QuantWeightView view = quant_view(weight_, layout_);
  kernels_.panels[code_kind(layout_.spec)](
      {.x = reinterpret_cast<const float*>(packed),
       .groups = groups(packed),
       .m = num_rows_,
       .row_block = row_block_,
       .layout = &layout_,
       .values = view.values,
       .panels = panel(columns.begin),
       .num_panels = (columns.end - columns.begin + kQuantPanel - 1) / kQuantPanel,
       .y = out.y,
       .y_stride = out.y_stride,
       .num_columns = columns.end - columns.begin,
       .bias = out.bias == nullptr ? nullptr : out.bias + columns.begin,
       .accumulate = out.accumulate,
       .scratch = scratch});
}

}  // namespace quire::cpu
