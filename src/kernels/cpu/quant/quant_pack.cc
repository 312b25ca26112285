// Packs quantized rows into the panels of quant_tables.h, and unpacks a row to floats.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/quant/quant_layout.h"

namespace quire {
namespace {

using cpu::kQuantChunk;
using cpu::kQuantPanel;
using cpu::kQuantStrip;
using cpu::QuantLayout;

// One output of a panel.
struct Lane {
  const QuantLayout& layout;
  uint8_t* panel;
  int64_t column;  // in the panel

  uint8_t* codes(int64_t chunk) const {
    return panel + (chunk * cpu::kQuantStrips + column / kQuantStrip) * layout.strip_bytes +
           column % kQuantStrip * 4;
  }
  uint8_t* scale(int64_t region, int64_t group, int64_t element_bytes) const {
    return panel + region + (group * kQuantPanel + column) * element_bytes;
  }
};

// Packs `width` bits, from bit `shift` on, of 32 codes of a lane into a plane.
void pack_plane(const uint8_t* codes, int width, int shift, uint8_t* lane) {
  const int per_word = 32 / width;
  const uint32_t mask = (1u << width) - 1u;
  for (int first = 0; first < 32; first += per_word, lane += 64) {
    uint32_t halves[2] = {0, 0};
    for (int i = 0; i < per_word; i += 2) {
      halves[0] |= (codes[first + i] >> shift & mask) << (width * i / 2);
      halves[1] |= (codes[first + i + 1] >> shift & mask) << (width * i / 2);
    }
    const uint32_t word = halves[0] | halves[1] << 16;
    std::memcpy(lane, &word, sizeof word);
  }
}

void unpack_plane(const uint8_t* lane, int width, int shift, uint8_t* codes) {
  const int per_word = 32 / width;
  const uint32_t mask = (1u << width) - 1u;
  for (int first = 0; first < 32; first += per_word, lane += 64) {
    uint32_t word;
    std::memcpy(&word, lane, sizeof word);
    for (int i = 0; i < per_word; ++i) {
      const uint32_t bits = word >> (16 * (i % 2) + width * (i / 2)) & mask;
      codes[first + i] = static_cast<uint8_t>(codes[first + i] | bits << shift);
    }
  }
}

template <typename Plane>
void for_each_plane(int bits, Plane&& plane) {
  const cpu::CodePlanes planes = cpu::code_planes(bits);
  int64_t offset = 0;
  for (int i = 0, shift = 0; i < planes.count; ++i) {
    plane(planes.width[i], shift, offset);
    shift += planes.width[i];
    offset += 64 * planes.width[i];
  }
}

// Packs the codes of a lane. Those past K are 0, and all are 0 if `codes` is null.
void pack_codes(const Lane& lane, const uint8_t* codes) {
  const QuantLayout& layout = lane.layout;
  uint8_t seen = 0;
  for (int64_t k = 0; k < layout.padded_k; k += kQuantChunk) {
    uint8_t chunk[kQuantChunk] = {};
    const int64_t n = codes == nullptr ? 0 : std::min(kQuantChunk, layout.k - k);
    if (n > 0) std::memcpy(chunk, codes + k, static_cast<size_t>(n));
    for (const uint8_t code : chunk) seen |= code;
    for_each_plane(layout.spec.bits, [&](int width, int shift, int64_t offset) {
      pack_plane(chunk, width, shift, lane.codes(k / kQuantChunk) + offset);
    });
  }
  QUIRE_CHECK(seen >> layout.spec.bits == 0, "[pack] a code of {:#x} in {} bits", seen,
              layout.spec.bits);
}

// Packs `count` elements into a region of a lane, and clears the rest of its `total`.
void pack_region(const Lane& lane, int64_t region, int64_t element_bytes, const void* source,
                 int64_t count, int64_t total) {
  const auto* from = static_cast<const uint8_t*>(source);
  for (int64_t g = 0; g < total; ++g) {
    uint8_t* to = lane.scale(region, g, element_bytes);
    if (from != nullptr && g < count) {
      std::memcpy(to, from + g * element_bytes, static_cast<size_t>(element_bytes));
    } else {
      std::memset(to, 0, static_cast<size_t>(element_bytes));
    }
  }
}

const uint8_t* row_of(const void* array, int64_t row, int64_t row_bytes) {
  return array == nullptr ? nullptr : static_cast<const uint8_t*>(array) + row * row_bytes;
}

// The numbers that a packed group of a lane stands for.
struct GroupValues {
  float scale = 0.0f;
  float zero = 0.0f;
  float min = 0.0f;
};
GroupValues group_values(const Lane& lane, int64_t g) {
  const QuantLayout& layout = lane.layout;
  const QuantSpec& quant = layout.spec;
  const int64_t scale_bytes = cpu::size_bytes(quant.scale_type);
  const bool has_min = quant.zero_kind == ZeroKind::kMin;
  const uint8_t* stored = lane.scale(layout.scales_at, g, scale_bytes);
  const uint8_t low = *stored & 15, high = *stored >> 4;
  const bool shares_byte = has_min && quant.scale_type == ScaleType::kU4;
  GroupValues group{.scale = cpu::scale_value(quant.scale_type, shares_byte ? &low : stored)};
  if (quant.zero_kind == ZeroKind::kInteger) group.zero = *lane.scale(layout.zeros_at, g, 1);
  if (has_min) {
    const ScaleType type = quant.scale_type == ScaleType::kI8 ? ScaleType::kU8 : quant.scale_type;
    group.min =
        cpu::scale_value(type, shares_byte ? &high : lane.scale(layout.zeros_at, g, scale_bytes));
  }
  if (!quant.has_two_levels()) return group;
  const int64_t super = g / layout.groups_per_super;
  const int64_t super_bytes = cpu::size_bytes(quant.super_scale_type);
  const auto super_value = [&](int64_t region) {
    return cpu::scale_value(quant.super_scale_type, lane.scale(region, super, super_bytes));
  };
  group.scale *= super_value(layout.super_scales_at);
  if (has_min) group.min *= super_value(layout.super_mins_at);
  return group;
}

// Stores the unit of a lane: the power of two with which the largest possible weight of the lane is
// at least 2^14 and below 2^15.
void pack_unit(const Lane& lane, float largest_code) {
  const QuantLayout& layout = lane.layout;
  float largest = 0.0f;
  for (int64_t g = 0; g < layout.num_groups; ++g) {
    const GroupValues group = group_values(lane, g);
    const float weight = std::abs(group.scale) * (largest_code + group.zero) + std::abs(group.min);
    largest = std::max(largest, weight);
  }
  constexpr int kMostExponent = 90;  // so that the unit and its inverse are normal numbers
  const int exponent =
      largest > 0.0f ? std::clamp(std::ilogb(largest) - 14, -kMostExponent, kMostExponent) : 0;
  *lane.scale(layout.units_at, 0, 1) = static_cast<uint8_t>(127 - exponent);  // E8M0
}

// Packs row `row` of `rows` into a lane, or zeros if it is negative.
void pack_lane(const Lane& lane, const QuantRows& rows, int64_t row) {
  const QuantLayout& layout = lane.layout;
  const QuantSpec& spec = layout.spec;
  const bool empty = row < 0;
  const int64_t groups = spec.num_groups(layout.k);
  const int64_t supers = spec.num_super_groups(layout.k);
  const int64_t total_supers =
      (layout.num_groups + layout.groups_per_super - 1) / layout.groups_per_super;
  const int64_t scale_bytes = cpu::size_bytes(spec.scale_type);
  const int64_t super_bytes = cpu::size_bytes(spec.super_scale_type);
  const bool has_min = spec.zero_kind == ZeroKind::kMin;
  const auto region = [&](int64_t at, const void* array, int64_t bytes, int64_t count,
                          int64_t total) {
    pack_region(lane, at, bytes, empty ? nullptr : row_of(array, row, count * bytes), count, total);
  };
  pack_codes(lane, empty ? nullptr : row_of(rows.codes, row, layout.k));
  region(layout.scales_at, rows.scales, scale_bytes, groups, layout.num_groups);
  if (has_min && spec.scale_type == ScaleType::kU4) {
    for (int64_t g = 0; g < groups && !empty; ++g) {
      const uint8_t min = row_of(rows.mins, row, groups)[g];
      uint8_t* scale = lane.scale(layout.scales_at, g, 1);
      QUIRE_CHECK(min < 16 && *scale < 16, "[pack] scale {} and min {} in 4 bits", *scale, min);
      *scale = static_cast<uint8_t>(*scale | min << 4);
    }
  } else if (has_min) {
    region(layout.zeros_at, rows.mins, scale_bytes, groups, layout.num_groups);
  } else if (spec.zero_kind == ZeroKind::kInteger) {
    region(layout.zeros_at, rows.zeros, 1, groups, layout.num_groups);
  }
  if (!spec.has_two_levels()) return;
  region(layout.super_scales_at, rows.super_scales, super_bytes, supers, total_supers);
  if (has_min) region(layout.super_mins_at, rows.super_mins, super_bytes, supers, total_supers);
}

void check_rows(const WeightSpec& spec, const QuantRows& rows) {
  const QuantSpec& quant = spec.quant;
  const bool has_min = quant.zero_kind == ZeroKind::kMin;
  QUIRE_CHECK(rows.first_row >= 0 && rows.num_rows >= 0 && rows.num_rows <= spec.n - rows.first_row,
              "[pack] rows [{}, {} + {}) of {}", rows.first_row, rows.first_row, rows.num_rows,
              spec.n);
  QUIRE_CHECK(rows.codes != nullptr && rows.scales != nullptr &&
                  has_min == (rows.mins != nullptr) &&
                  (quant.zero_kind == ZeroKind::kInteger) == (rows.zeros != nullptr) &&
                  quant.has_two_levels() == (rows.super_scales != nullptr) &&
                  (quant.has_two_levels() && has_min) == (rows.super_mins != nullptr),
              "[pack] the arrays do not fit the spec");
}

}  // namespace

void pack_quant_rows(Stream& stream, const PackedWeight& weight, const QuantRows& rows) {
  const WeightSpec& spec = weight.spec;
  if (rows.num_rows == 0) return;
  check_rows(spec, rows);
  const QuantLayout layout = cpu::quant_layout(spec);
  const cpu::QuantWeightView view = cpu::quant_view(weight, layout);
  const int64_t end_row = rows.first_row + rows.num_rows;
  // The call that packs the last row of W clears the lanes after it and writes the code values.
  const bool is_last = end_row == spec.n;
  if (is_last) *view.values = cpu::code_values(spec.quant);
  const float largest_code = cpu::largest_code_value(spec.quant);
  const int64_t end_lane = is_last ? view.num_panels * kQuantPanel : end_row;
  cpu::run_parallel(
      cpu::host(stream), rows.num_rows * spec.k, 1 << 14, [&](int thread, int num_threads) {
        const WorkRange mine = split_work(end_lane - rows.first_row, 1, thread, num_threads);
        for (int64_t i = mine.begin; i < mine.end; ++i) {
          const int64_t output = rows.first_row + i;
          const Lane lane{layout, view.panels + output / kQuantPanel * layout.panel_bytes,
                          output % kQuantPanel};
          pack_lane(lane, rows, i < rows.num_rows ? i : -1);
          pack_unit(lane, largest_code);
        }
      });
}

void pack_quant_columns(const PackedWeight& weight, const int32_t* source) {
  const WeightSpec& spec = weight.spec;
  QUIRE_CHECK(spec.quant.has_column_order, "[pack] the weight has no column order");
  const cpu::QuantWeightView view = cpu::quant_view(weight, cpu::quant_layout(spec));
  for (int64_t k = 0; k < spec.k; ++k) {
    QUIRE_CHECK(source[k] >= 0 && source[k] < spec.k, "[pack] column {} of {}", source[k], spec.k);
    view.column_order[k] = source[k];
  }
}

void unpack_quant_row(const PackedWeight& weight, int64_t row, float* out) {
  const WeightSpec& spec = weight.spec;
  QUIRE_DCHECK(row >= 0 && row < spec.n, "[unpack] row {} of {}", row, spec.n);
  const QuantLayout layout = cpu::quant_layout(spec);
  const cpu::QuantWeightView view = cpu::quant_view(weight, layout);
  const Lane lane{layout, view.panels + row / kQuantPanel * layout.panel_bytes, row % kQuantPanel};
  GroupValues group;
  for (int64_t k = 0; k < layout.k; k += kQuantChunk) {
    uint8_t codes[kQuantChunk] = {};
    for_each_plane(spec.quant.bits, [&](int width, int shift, int64_t offset) {
      unpack_plane(lane.codes(k / kQuantChunk) + offset, width, shift, codes);
    });
    for (int64_t i = k; i < std::min(k + kQuantChunk, layout.k); ++i) {
      if (i % layout.group_size == 0) group = group_values(lane, i / layout.group_size);
      const float product = group.scale * (view.values->f32[codes[i - k]] - group.zero);
      out[view.column_order == nullptr ? i : view.column_order[i]] = product - group.min;
    }
  }
}

}  // namespace quire
