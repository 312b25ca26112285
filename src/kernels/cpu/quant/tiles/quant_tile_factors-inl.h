// Converts the scales of quantized weights to the form of tile kernels: float16 in the unit of
// their output.
#pragma once

#include "kernels/cpu/quant/quant_panels-inl.h"
#include "kernels/cpu/quant/quant_scales-inl.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/quant/tiles/quant_tile_codes-inl.h"
#include "kernels/cpu/quant/tiles/quant_tile_products-inl.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

// The units of a panel's outputs.
struct PanelUnits {
  alignas(64) float of[kQuantPanel];
  PanelUnits(const QuantLayout& layout, const uint8_t* panel) {
    for (int64_t column = 0; column < kQuantPanel; column += kQuantStrip) {
      store(of + column, load_scales(cpu::kUnitType, panel + layout.units_at, column));
    }
  }
};

// Computes the factors of a piece, [group][strip], for 2 * num_halves strips from 2 * first_half
// on.
template <CodeKind KIND>
static void piece_factors(const QuantLayout& layout, const uint8_t* panel, const PanelUnits& units,
                          const TilePiece& piece, int64_t first_half, int64_t num_halves,
                          StripFactors* factors) {
  alignas(64) float scales[kQuantSpan / 16 * kGroupFloats];
  const ZeroKind zero_kind = layout.spec.zero_kind;
  for (int64_t half = first_half; half < first_half + num_halves; ++half) {
    GroupWalk walk = walk_from(layout, piece);
    expand_scales(layout, panel, half, walk, piece.num_groups, scales);
    for (int64_t s = 0; s < 2; ++s) {
      const F16 unit = load(units.of + half * kQuantHalf + s * kQuantStrip);
      const F16 scale_unit = mul(unit, set1(1.0f / TileCodes<KIND>::kUnit));
      const F16 zero_unit = zero_kind == ZeroKind::kInteger ? set1(TileCodes<KIND>::kUnit) : unit;
      for (int64_t g = 0; g < piece.num_groups; ++g) {
        const float* from = scales + g * kGroupFloats + s * kQuantStrip;
        StripFactors& to = factors[g * kQuantStrips + half * 2 + s];
        set_scale(to, mul(load(from), scale_unit));
        if (zero_kind != ZeroKind::kNone) set_zero(to, mul(load(from + kQuantHalf), zero_unit));
      }
    }
  }
}

// The factors of one step: those of the first and of the last 16 columns, from strip 0 on.
struct StepFactors {
  const StripFactors* first;
  const StripFactors* last;
};
QUIRE_SIMD StepFactors step_factors(const QuantLayout& layout, const TilePiece& piece,
                                    int64_t column, const StripFactors* factors) {
  const int64_t group = column / layout.group_size - piece.first_group;
  const StripFactors* first = factors + group * kQuantStrips;
  return {first, layout.group_size == 16 ? first + kQuantStrips : first};
}

}  // namespace
}  // namespace quire
