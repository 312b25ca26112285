// Products with quantized weights over vectors.
//
// Codes stand for integers or small floats that are exact in bf16. So a group is summed like dense
// bf16 weights (linear-inl.h: one accumulator per output, k ascending), and scales are applied to
// sums. For few rows codes are decoded and multiplied within registers. For many rows a panel is
// decoded once for a group of rows, into values that stay in the cache, and multiplied there by
// blocks of rows. Both do the same operations in the same order, so law L4 holds across them.
#pragma once

#include "kernels/cpu/quant/quant_blocks-inl.h"
#include "kernels/cpu/quant/quant_fused-inl.h"
#include "kernels/cpu/quant/quant_math-inl.h"
#include "kernels/cpu/quant/quant_scales-inl.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/quant/quant_x-inl.h"
#include "kernels/cpu/quant/quant_x_codes-inl.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

template <class Math, CodeKind KIND>
static void quant_panels(const QuantPanelsArgs& args) {
  const QuantSpec& spec = args.layout->spec;
  if (args.m > Math::template kFusedRows<KIND>) return block_panels<Math, KIND>(args);
  if constexpr (KIND != cpu::kCode2 && KIND != cpu::kCode3 && KIND != cpu::kCode6) {
    if (spec.scale_type == ScaleType::kF16 && spec.zero_kind == ZeroKind::kNone) {
      return fused_panels<Math, KIND, kDirectF16>(args);
    }
  }
  fused_panels<Math, KIND, kExpanded>(args);
}

// The table that an instruction set exports for products in floats.
template <QuantFloatTraits Traits, class Math = FloatMath<Traits>>
constexpr cpu::QuantKernels kQuantOver = {
    .fused_rows = min_of(Traits::template kFusedRows<cpu::kCode8>, Traits::kSmallGroupRows),
    .row_block = Traits::kRowBlock,
    .small_group_rows = Traits::kSmallGroupRows,
    .x_padding = cpu::kQuantXPadding,
    .pair_slots = kPairSlots,
    .group_slots = Math::kGroupSlots,
    .scratch_rows = kGroupRows<Math> + 2 * Traits::kRowBlock,
    .scratch_row_bytes = kBlockRowBytes,
    // Pairs that take one slot are always rounded to bf16.
    .pack_x = {kPairSlots == 1 ? nullptr : &pack_quant_x<false>, &pack_quant_x<true>, nullptr},
    .panels = {&quant_panels<Math, cpu::kCode2>, &quant_panels<Math, cpu::kCode3>,
               &quant_panels<Math, cpu::kCode4>, &quant_panels<Math, cpu::kCode5>,
               &quant_panels<Math, cpu::kCode6>, &quant_panels<Math, cpu::kCode8>,
               &quant_panels<Math, Traits::kLooksUpAll ? cpu::kCode4 : cpu::kTable4>,
               &quant_panels<Math, cpu::kTable8>},
};

// The table for activations that are codes.
template <QuantFloatTraits Traits>
constexpr cpu::QuantKernels quant_over_codes() {
  using Math = CodeMath<Traits>;
  cpu::QuantKernels kernels = kQuantOver<Traits>;
  kernels.group_slots = Math::kGroupSlots;
  kernels.pack_x[0] = kernels.pack_x[1] = nullptr;
  kernels.pack_x[2] = &pack_code_floats;
  for (auto& panels : kernels.panels) panels = nullptr;
  kernels.panels[cpu::kCode2] = &quant_panels<Math, cpu::kCode2>;
  kernels.panels[cpu::kCode3] = &quant_panels<Math, cpu::kCode3>;
  kernels.panels[cpu::kCode4] = &quant_panels<Math, cpu::kCode4>;
  kernels.panels[cpu::kCode5] = &quant_panels<Math, cpu::kCode5>;
  kernels.panels[cpu::kCode6] = &quant_panels<Math, cpu::kCode6>;
  kernels.panels[cpu::kCode8] = &quant_panels<Math, cpu::kCode8>;
  return kernels;
}

}  // namespace
}  // namespace quire
