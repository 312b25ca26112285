// Weight-only quantized matrices as the GPU's linear layers read them: packed once on the host,
// copied as they are.
//
// Tiles of 16 outputs x 64 inputs, each the A operands of four products of tensor cores: a warp
// reads 512 bytes (4-bit codes) or twice that (8-bit codes), 16 bytes per lane, straight into
// registers. A product sums over its 16 inputs in any order, so inputs 32 h + 8 t + [0, 8) belong
// to the lanes of column pair t in products 2 h and 2 h + 1: what a lane needs of x lies together,
// and groups of 32 inputs end between products.
//   codes   [N / 16][K / 64][bits / 4][32 lanes][16 bytes]
//   scales  [N / 16][groups][16] float; of FP4 codes bytes, the exponents of E8M0 and
//           kFp4ExponentShift
//   zeros   [N / 16][groups][16] byte, of zero points per group; codes minus these, or minus the
//           offset, are what is multiplied
//   order   [K] int32, of weights with has_column_order
// N is padded to 16 (scale 0), K to 64 (value 0).
#pragma once

#include <array>
#include <cstdint>

#include "base/result.h"
#include "kernels/api/quant.h"

namespace quire::cuda {

inline constexpr int64_t kQuantTileOutputs = 16;
inline constexpr int64_t kQuantTileInputs = 64;
inline constexpr int64_t kQuantUnitInputs = 32;  // groups are whole units
// FP4 codes are multiplied with their scales before products, exactly, as 2^-64 of what they stand
// for: an exponent and this is that of the bf16 which makes it of a code's bits.
inline constexpr int32_t kFp4ExponentShift = 62;
inline constexpr int32_t kMostFp4Exponent = 254 - kFp4ExponentShift;  // scales of 2^65

struct QuantWeightLayout {
  int64_t num_tiles = 0;        // of 16 outputs
  int64_t num_chunks = 0;       // of 64 inputs
  int64_t units_per_group = 0;  // 1 or even
  int64_t num_groups = 0;
  int32_t bits = 0;
  int32_t scale_bytes = 0;  // of a scale
  int64_t scales_at = 0;    // bytes
  int64_t zeros_at = 0;
  int64_t mins_at = 0;
  int64_t order_at = 0;
  int64_t num_bytes = 0;

  // 0: a group is half a chunk.
  constexpr int chunks_per_group() const { return static_cast<int>(units_per_group / 2); }
  constexpr int64_t chunk_bytes() const { return int64_t{128} * bits; }
  // Of an output's group among the scales, the zeros and the mins.
  constexpr int64_t scale_index(int64_t output, int64_t group) const {
    return (output / kQuantTileOutputs * num_groups + group) * kQuantTileOutputs +
           output % kQuantTileOutputs;
  }
};

// Where a code lies in its tile of 16 x 64, as byte and (of 4-bit codes) nibble.
struct QuantCodeAt {
  int32_t byte = 0;
  int32_t shift = 0;
};
QuantCodeAt quant_code_at(int32_t bits, int32_t output, int32_t input);

// Whether a GPU takes the weight: integers of 4 or 8 bits with or without zero points or minima,
// FP8 e4m3 or FP4 e2m1, with one level of scales per row or per group of a multiple of 32 inputs,
// E8M0 ones of FP4.
// kUnimplemented names what is not taken.
Status check_quant_weight(const WeightSpec& spec);

QuantWeightLayout quant_weight_layout(const WeightSpec& spec);

// Rows into host memory of layout.num_bytes, which starts as zeros; any parts in any order, each
// row once.
void pack_quant_weight(const PackedWeight& weight, const QuantRows& rows);
// Some rows, from a multiple of 16 on, packed as a weight of their own: where they go in the whole.
struct QuantPiece {
  int64_t to = 0;    // in the whole weight
  int64_t from = 0;  // in the rows' own
  int64_t num_bytes = 0;
};
std::array<QuantPiece, 4> quant_pieces(const WeightSpec& spec, int64_t first_row, int64_t num_rows);

// As pack_quant_columns() of api/quant.h.
void pack_quant_weight_order(const PackedWeight& weight, const int32_t* source);

// On Hopper more than a few rows go through it.
int64_t quant_workspace_bytes(int64_t max_rows, const WeightSpec& spec);

// linear() of such a weight: sums in float over products of bf16, a scale applied to the sum of its
// group. K is cut into eight slices that depend on the weight alone; they are added in order, so a
// row's bits do not depend on the number of rows (law L4).
void quant_linear(Stream& stream, const LinearParams& params);

}  // namespace quire::cuda
