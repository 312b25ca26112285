// The scales of quantized weights as floats, group by group.
#pragma once

#include "kernels/cpu/quant/quant_codes-inl.h"
#include "kernels/cpu/quant/quant_panels-inl.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

using cpu::kQuantHalf;
using cpu::kQuantPanel;
using cpu::kQuantSpan;
using cpu::kQuantStrip;
using cpu::QuantLayout;

QUIRE_SIMD float e8m0(uint8_t e) {
  const uint32_t bits = e == 0 ? 0x400000u : static_cast<uint32_t>(e) << 23;
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
QUIRE_SIMD float e4m3(uint8_t code) {
  const uint32_t exponent = (code >> 3) & 15u;
  const float mantissa = static_cast<float>(code & 7u) + (exponent == 0 ? 0.0f : 8.0f);
  const uint32_t bits = ((exponent == 0 ? 1u : exponent) + 117u) << 23;  // 2^(exponent - 10)
  float power;
  __builtin_memcpy(&power, &bits, sizeof power);
  return (code & 0x80) != 0 ? -(mantissa * power) : mantissa * power;
}
template <float (*CONVERT)(uint8_t)>
QUIRE_SIMD F16 convert_bytes(const uint8_t* p) {
  float s[16];
  for (int i = 0; i < 16; ++i) s[i] = CONVERT(p[i]);
  return load(s);
}

QUIRE_SIMD F16 load_scales(ScaleType type, const uint8_t* region, int64_t index) {
  switch (type) {
    case ScaleType::kF32:
      return load(reinterpret_cast<const float*>(region) + index);
    case ScaleType::kF16:
      return load_f16(reinterpret_cast<const uint16_t*>(region) + index);
    case ScaleType::kBF16:
      return load_bf16(reinterpret_cast<const uint16_t*>(region) + index);
    case ScaleType::kE8M0:
      return convert_bytes<e8m0>(region + index);
    case ScaleType::kE4M3:
      return convert_bytes<e4m3>(region + index);
    case ScaleType::kI8:
      return load_i8(region + index);
    default:
      return load_u8(region + index);
  }
}

// The place of the next group's scales in a panel.
struct GroupWalk {
  int64_t index = 0;  // that of output 0 in [group][64] and [super-group][64]
  int64_t super_index = 0;
  int64_t until_super;
  int64_t span = 0;

  QUIRE_SIMD_MEMBER void next(const QuantLayout& layout) {
    index += kQuantPanel;
    if (--until_super == 0) {
      until_super = layout.groups_per_super;
      super_index += kQuantPanel;
    }
  }
};

struct GroupScale {
  F16 scale;
  F16 zero;  // min or zero point; not set if there are none
};

// The floats per group of half a panel: [2][32], scales and then mins or zeros, if there are any.
constexpr int64_t kGroupFloats = 2 * kQuantHalf;

// Prefetches items [first, first + count) of a region of a panel into the second-level cache.
QUIRE_SIMD void prefetch_items(const uint8_t* region, int64_t first, int64_t count,
                               int64_t item_bytes) {
  const uint8_t* at = region + first * item_bytes;
  for (const uint8_t* end = at + count * item_bytes; at < end; at += 64) prefetch_l2(at);
}

// Prefetches the scales of the span kSpansAhead after `span`, in this panel or a later one.
// Computing that many spans takes as long as a read from busy memory.
constexpr int64_t kSpansAhead = 2;
QUIRE_SIMD void prefetch_scales(const QuantLayout& layout, const uint8_t* panel, int64_t span) {
  for (span += kSpansAhead; span >= layout.num_spans; span -= layout.num_spans) {
    panel += layout.panel_bytes;
  }
  const int64_t first = span * layout.groups_per_span;
  const int64_t count = min_of(layout.groups_per_span, layout.num_groups - first);
  prefetch_items(panel + layout.scales_at, first, count, layout.group_scale_bytes);
  prefetch_items(panel + layout.zeros_at, first, count, layout.group_zero_bytes);
  if (layout.super_scale_bytes == 0) return;
  const int64_t super = first / layout.groups_per_super;
  prefetch_items(panel + layout.super_scales_at, super, layout.supers_per_span,
                 layout.super_scale_bytes);
  if (layout.spec.zero_kind != ZeroKind::kMin) return;
  prefetch_items(panel + layout.super_mins_at, super, layout.supers_per_span,
                 layout.super_scale_bytes);
}

// Expands the next num_groups groups of half a panel. read(index) returns the 16 stored scales from
// `index` on.
template <class Read>
QUIRE_SIMD void expand_groups(const QuantLayout& layout, const uint8_t* panel, int64_t half,
                              GroupWalk& walk, int64_t num_groups, float* out, Read read) {
  const QuantSpec& spec = layout.spec;
  const bool has_super = spec.super_scale_type != ScaleType::kNone;
  const bool has_zero = spec.zero_kind != ZeroKind::kNone;
  const bool has_super_min = has_super && spec.zero_kind == ZeroKind::kMin;
  const GroupWalk start = walk;
  for (int64_t strip = 0; strip < kQuantHalf; strip += kQuantStrip) {
    const int64_t first = half * kQuantHalf + strip;
    walk = start;
    F16 super_scale = zero(), super_min = zero();
    for (int64_t g = 0; g < num_groups; ++g) {
      if (has_super && (g == 0 || walk.until_super == layout.groups_per_super)) {
        const int64_t index = walk.super_index + first;
        super_scale = load_scales(spec.super_scale_type, panel + layout.super_scales_at, index);
        if (has_super_min) {
          super_min = load_scales(spec.super_scale_type, panel + layout.super_mins_at, index);
        }
      }
      GroupScale group = read(walk.index + first);
      if (has_super) group.scale = mul(group.scale, super_scale);
      if (has_super_min) group.zero = mul(group.zero, super_min);
      float* to = out + g * kGroupFloats + strip;
      store(to, group.scale);
      if (has_zero) store(to + kQuantHalf, group.zero);
      walk.next(layout);
    }
  }
}

// Expands the scales of the next num_groups groups of half a panel to floats, [group][2][32].
static __attribute__((noinline)) void expand_scales(const QuantLayout& layout, const uint8_t* panel,
                                                    int64_t half, GroupWalk& walk,
                                                    int64_t num_groups, float* out) {
  const QuantSpec& spec = layout.spec;
  const uint8_t* scales = panel + layout.scales_at;
  const uint8_t* zeros = panel + layout.zeros_at;
  const ScaleType type = spec.scale_type;
  if (half == 0) prefetch_scales(layout, panel, walk.span);
  ++walk.span;
  const auto expand = [&](auto read) __attribute__((always_inline)) {
    expand_groups(layout, panel, half, walk, num_groups, out, read);
  };
  const bool has_min = spec.zero_kind == ZeroKind::kMin;
  if (has_min && type == ScaleType::kU4) {
    expand([=](int64_t index) {
      GroupScale group;
      load_u4_pair(scales + index, &group.scale, &group.zero);
      return group;
    });
  } else if (has_min && type == ScaleType::kU8) {
    expand([=](int64_t index) {
      return GroupScale{load_u8(scales + index), load_u8(zeros + index)};
    });
  } else if (type == ScaleType::kI8 && !has_min) {
    expand([=](int64_t index) { return GroupScale{load_i8(scales + index), zero()}; });
  } else if (spec.zero_kind == ZeroKind::kInteger || (has_min && type == ScaleType::kI8)) {
    expand([=](int64_t index) {
      return GroupScale{load_scales(type, scales, index), load_u8(zeros + index)};
    });
  } else if (has_min) {
    expand([=](int64_t index) {
      return GroupScale{load_scales(type, scales, index), load_scales(type, zeros, index)};
    });
  } else {
    expand([=](int64_t index) { return GroupScale{load_scales(type, scales, index), zero()}; });
  }
}

// How a kernel for few rows reads scales: expanded, a span of groups at a time; or one group when
// it is needed, if that is only a conversion.
enum ScaleMode : int { kExpanded, kDirectF16 };

template <ScaleMode MODE>
struct ScaleReader;

template <>
struct ScaleReader<kExpanded> {
  float groups[kQuantSpan / 16 * kGroupFloats];
  GroupWalk walk;
  const uint8_t* panel;
  int64_t half;
  const float* at;

  QUIRE_SIMD_MEMBER void begin(const QuantLayout& layout, const uint8_t* panel_start,
                               int64_t panel_half) {
    panel = panel_start;
    half = panel_half;
    walk.until_super = layout.groups_per_super;
  }
  QUIRE_SIMD_MEMBER void begin_span(const QuantLayout& layout, int64_t num_groups) {
    expand_scales(layout, panel, half, walk, num_groups, groups);
    at = groups;
  }
  QUIRE_SIMD_MEMBER F16 scale(int64_t first) const { return load(at + first); }
  QUIRE_SIMD_MEMBER F16 zero_point(int64_t first) const { return load(at + kQuantHalf + first); }
  QUIRE_SIMD_MEMBER void next() { at += kGroupFloats; }
};

template <>
struct ScaleReader<kDirectF16> {
  // Scales are prefetched this far ahead of use, but not further than in the next panel.
  static constexpr int64_t kAhead = 48 * kQuantPanel;
  const uint16_t* at;
  const uint16_t* ahead;
  const uint16_t* end;
  int64_t to_next_panel;

  QUIRE_SIMD_MEMBER void begin(const QuantLayout& layout, const uint8_t* panel, int64_t half) {
    const auto* start = reinterpret_cast<const uint16_t*>(panel + layout.scales_at);
    at = start + half * kQuantHalf;
    const int64_t num_scales = layout.num_groups * kQuantPanel;
    ahead = at + min_of(kAhead, num_scales);
    end = start + num_scales;
    to_next_panel = layout.panel_bytes / 2 - num_scales;
  }
  QUIRE_SIMD_MEMBER void begin_span(const QuantLayout&, int64_t) {}
  QUIRE_SIMD_MEMBER F16 scale(int64_t first) const { return load_f16(at + first); }
  QUIRE_SIMD_MEMBER F16 zero_point(int64_t) const { return zero(); }
  QUIRE_SIMD_MEMBER void next() {
    at += kQuantPanel;
    prefetch_l2(ahead < end ? ahead : ahead + to_next_panel);
    ahead += kQuantPanel;
  }
};

}  // namespace
}  // namespace quire
