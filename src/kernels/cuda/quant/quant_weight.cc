#include "kernels/cuda/quant/quant_weight.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/quant/quant_layout.h"

namespace quire::cuda {
namespace {

float scale_at(ScaleType type, const void* scales, int64_t i) {
  return cpu::scale_value(type, static_cast<const uint8_t*>(scales) + i * cpu::size_bytes(type));
}

Status refused(const char* what) {
  return {StatusCode::kUnimplemented, fmt::format("cuda: quantized weight: expected {}", what)};
}

}  // namespace

Status check_quant_weight(const WeightSpec& spec) {
  const QuantSpec& quant = spec.quant;
  QUIRE_RETURN_IF_ERROR(check_quant(spec));
  const bool is_linear = quant.codebook == Codebook::kLinear;
  if ((quant.bits != 4 && quant.bits != 8) || is_integer_table(quant.codebook))
    return refused("integers of 4 or 8 bits, FP8 e4m3 or FP4 e2m1");
  if (quant.group_size < spec.k && quant.group_size % kQuantUnitInputs != 0)
    return refused("groups of a multiple of 32 inputs or whole rows");
  if (quant.has_two_levels() || (!is_linear && quant.zero_kind != ZeroKind::kNone))
    return refused("scales of one level, and zero points or minima of integers");
  if (quant.codebook == Codebook::kE2M1 && quant.scale_type != ScaleType::kE8M0)
    return refused("scales of E8M0 beside FP4");
  if (quant.zero_kind == ZeroKind::kInteger && quant.offset != 0)
    return refused("zero points without an offset");
  return {};
}

QuantWeightLayout quant_weight_layout(const WeightSpec& spec) {
  QuantWeightLayout layout;
  layout.num_tiles = (spec.n + kQuantTileOutputs - 1) / kQuantTileOutputs;
  layout.num_chunks = (spec.k + kQuantTileInputs - 1) / kQuantTileInputs;
  const int64_t num_units = layout.num_chunks * kQuantTileInputs / kQuantUnitInputs;
  layout.units_per_group =
      spec.quant.group_size >= spec.k ? num_units : spec.quant.group_size / kQuantUnitInputs;
  if (layout.units_per_group % 2 != 0) layout.units_per_group = 1;  // each unit has its group's
  layout.num_groups = (num_units + layout.units_per_group - 1) / layout.units_per_group;
  layout.bits = spec.quant.bits;
  layout.scale_bytes = spec.quant.codebook == Codebook::kE2M1 ? 1 : int32_t{sizeof(float)};
  layout.scales_at = layout.num_tiles * layout.num_chunks * layout.chunk_bytes();
  const int64_t scales = layout.num_groups * layout.num_tiles * kQuantTileOutputs;
  const int64_t mins = spec.quant.zero_kind == ZeroKind::kMin ? scales : 0;
  layout.zeros_at = layout.scales_at + scales * layout.scale_bytes;
  const int64_t zeros = spec.quant.zero_kind == ZeroKind::kInteger ? scales : 0;
  layout.mins_at = (layout.zeros_at + zeros + 63) / 64 * 64;
  layout.order_at = (layout.mins_at + mins * int64_t{sizeof(float)} + 63) / 64 * 64;
  const int64_t order = spec.quant.has_column_order ? spec.k * int64_t{sizeof(int32_t)} : 0;
  layout.num_bytes = layout.order_at + (order + 63) / 64 * 64;
  return layout;
}

QuantCodeAt quant_code_at(int32_t bits, int32_t output, int32_t input) {
  const int32_t t = input % 32 / 8;
  const int32_t product = input / 32 * 2 + input % 8 / 4;
  const int32_t half = input % 4 / 2;  // registers 0, 1 or 2, 3
  const int32_t element = input % 2;   // one of the register's two
  const int32_t upper = output / 8;    // registers 1, 3
  const int32_t lane = output % 8 * 4 + t;
  if (bits == 4) {  // a word per product: register r at bits 4 r, the second element 16 bits higher
    const int32_t bit = 4 * (2 * half + upper) + 16 * element;
    return {lane * 16 + product * 4 + bit / 8, bit % 8};
  }
  // Two words per product: registers 0, 1 and 2, 3, with interleaved bytes.
  return {product / 2 * 512 + lane * 16 + product % 2 * 8 + half * 4 + upper + 2 * element, 0};
}

namespace {

using TileRow = std::array<QuantCodeAt, kQuantTileInputs>;

const TileRow& tile_row(int32_t bits, int64_t output) {
  using Tile = std::array<TileRow, kQuantTileOutputs>;
  static const std::array<Tile, 2> kTiles = [] {
    std::array<Tile, 2> tiles;
    for (int32_t i = 0; i < 2 * 16 * 64; ++i)
      tiles[i / 1024][i / 64 % 16][i % 64] = quant_code_at(i < 1024 ? 4 : 8, i / 64 % 16, i % 64);
    return tiles;
  }();
  return kTiles[bits == 4 ? 0 : 1][static_cast<size_t>(output)];
}

// Packs one output.
class RowPacker {
 public:
  RowPacker(const PackedWeight& weight, const QuantWeightLayout& layout, int64_t output)
      : spec_(weight.spec),
        layout_(layout),
        base_(static_cast<uint8_t*>(weight.data)),
        output_(output) {}

  // `row` is an index into `rows`.
  void pack(const QuantRows& rows, int64_t row) {
    const QuantSpec& quant = spec_.quant;
    const int64_t groups = quant.num_groups(spec_.k);
    auto* scales = reinterpret_cast<float*>(base_ + layout_.scales_at);
    auto* mins = reinterpret_cast<float*>(base_ + layout_.mins_at);
    for (int64_t group = 0; first_input(group) < spec_.k; ++group) {
      const int64_t at = layout_.scale_index(output_, group);
      const int64_t from = row * groups + first_input(group) / quant.group_size;
      if (layout_.scale_bytes == 1) {
        const int32_t exponent = static_cast<const uint8_t*>(rows.scales)[from];
        base_[layout_.scales_at + at] =
            static_cast<uint8_t>(std::min(exponent, kMostFp4Exponent) + kFp4ExponentShift);
      } else {
        scales[at] = scale_at(quant.scale_type, rows.scales, from);
      }
      if (quant.zero_kind == ZeroKind::kInteger) base_[layout_.zeros_at + at] = rows.zeros[from];
      if (quant.zero_kind == ZeroKind::kMin) mins[at] = scale_at(quant.scale_type, rows.mins, from);
    }
    pack_codes(rows.codes + row * spec_.k);
  }

 private:
  // Returns the first input of a group of the layout. Padding may make one group more than the rows
  // have.
  int64_t first_input(int64_t group) const {
    return group * layout_.units_per_group * kQuantUnitInputs;
  }
  // Returns the code that means 0, for padding. Minima need no care there, since inputs are zeros
  // too.
  uint8_t padding(int64_t k) const {
    const int64_t group = k / (layout_.units_per_group * kQuantUnitInputs);
    if (first_input(group) >= spec_.k) return 0;
    if (spec_.quant.zero_kind != ZeroKind::kInteger)
      return static_cast<uint8_t>(spec_.quant.offset);
    return base_[layout_.zeros_at + layout_.scale_index(output_, group)];
  }

  void pack_codes(const uint8_t* codes) {
    const TileRow& places = tile_row(layout_.bits, output_ % kQuantTileOutputs);
    uint8_t* tile =
        base_ + output_ / kQuantTileOutputs * layout_.num_chunks * layout_.chunk_bytes();
    uint32_t all = 0;
    for (int64_t first = 0; first < spec_.k; first += kQuantTileInputs) {
      for (int64_t j = 0; j < kQuantTileInputs; ++j) {
        const uint8_t code = first + j < spec_.k ? codes[first + j] : padding(first + j);
        const QuantCodeAt to = places[static_cast<size_t>(j)];
        all |= code;
        tile[to.byte] |= static_cast<uint8_t>(code << to.shift);
      }
      tile += layout_.chunk_bytes();
    }
    QUIRE_CHECK(all >> layout_.bits == 0, "[pack] a code of more than {} bits", layout_.bits);
  }

  const WeightSpec& spec_;
  const QuantWeightLayout& layout_;
  uint8_t* base_;
  int64_t output_;
};

}  // namespace

void pack_quant_weight(const PackedWeight& weight, const QuantRows& rows) {
  const QuantWeightLayout layout = quant_weight_layout(weight.spec);
  QUIRE_CHECK(
      rows.first_row >= 0 && rows.num_rows >= 0 && rows.num_rows <= weight.spec.n - rows.first_row,
      "[pack] rows [{}, {} + {}) of {}", rows.first_row, rows.first_row, rows.num_rows,
      weight.spec.n);
  for (int64_t i = 0; i < rows.num_rows; ++i)
    RowPacker(weight, layout, rows.first_row + i).pack(rows, i);
}

std::array<QuantPiece, 4> quant_pieces(const WeightSpec& spec, int64_t first_row,
                                       int64_t num_rows) {
  QUIRE_CHECK(first_row % kQuantTileOutputs == 0, "[pack] rows from {}", first_row);
  WeightSpec rows = spec;
  rows.n = num_rows;
  const QuantWeightLayout whole = quant_weight_layout(spec);
  const QuantWeightLayout own = quant_weight_layout(rows);
  const int64_t tile = first_row / kQuantTileOutputs;
  const int64_t scales = whole.num_groups * kQuantTileOutputs;  // of each tile
  const auto piece = [&](int64_t to, int64_t from, int64_t tile_bytes) {
    return QuantPiece{to + tile * tile_bytes, from, own.num_tiles * tile_bytes};
  };
  const bool has_zeros = spec.quant.zero_kind == ZeroKind::kInteger;
  const bool has_mins = spec.quant.zero_kind == ZeroKind::kMin;
  return {piece(0, 0, whole.num_chunks * whole.chunk_bytes()),
          piece(whole.scales_at, own.scales_at, scales * whole.scale_bytes),
          piece(whole.zeros_at, own.zeros_at, has_zeros ? scales : 0),
          piece(whole.mins_at, own.mins_at, has_mins ? scales * int64_t{sizeof(float)} : 0)};
}

void pack_quant_weight_order(const PackedWeight& weight, const int32_t* source) {
  const QuantWeightLayout layout = quant_weight_layout(weight.spec);
  QUIRE_CHECK(weight.spec.quant.has_column_order, "[pack] the columns have no order of their own");
  for (int64_t k = 0; k < weight.spec.k; ++k)
    QUIRE_CHECK(source[k] >= 0 && source[k] < weight.spec.k, "[pack] column {}", source[k]);
  std::memcpy(static_cast<uint8_t*>(weight.data) + layout.order_at, source,
              static_cast<size_t>(weight.spec.k) * sizeof(int32_t));
}

}  // namespace quire::cuda
