// Weight-only quantized matrices in the layout that the GPU's linear layers read: packed once on
// the host, and copied unchanged.
//
// The layout has tiles of 16 outputs x 64 inputs, which are the A operands of four products of
// tensor cores. A warp reads 512 bytes (4-bit codes) or 1024 bytes (8-bit codes), 16 bytes per
// lane, straight into registers. A product may sum its 16 inputs in any order, so inputs 32 h + 8 t
// + [0, 8) belong to the lanes of column pair t in products 2 h and 2 h + 1: the inputs of x that a
// lane needs are consecutive, and groups of 32 inputs end between products.
//   codes   [N / 16][K / 64][bits / 4][32 lanes][16 bytes]
//   scales  [N / 16][groups][16] float; for FP4 codes bytes, the exponents of E8M0 plus
//           kFp4ExponentShift
//   zeros   [N / 16][groups][16] byte, for zero points per group; these, or the offset, are
//           subtracted from codes before the product
//   order   [K] int32, for weights with has_column_order
// N is padded to 16 (scale 0), K to 64 (value 0).
#pragma once

#include <array>
#include <cstdint>

#include "base/result.h"
#include "kernels/api/quant.h"

namespace quire::cuda {

inline constexpr int64_t kQuantTileOutputs = 16;
inline constexpr int64_t kQuantTileInputs = 64;
inline constexpr int64_t kQuantUnitInputs = 32;  // a group is whole units
// FP4 codes are multiplied by their scales before the products, exactly, to 2^-64 times their
// values. An exponent plus this shift is the exponent of the bf16 factor for a code's bits.
inline constexpr int32_t kFp4ExponentShift = 62;
inline constexpr int32_t kMostFp4Exponent = 254 - kFp4ExponentShift;  // scales of 2^65

struct QuantWeightLayout {
  int64_t num_tiles = 0;        // 16 outputs each
  int64_t num_chunks = 0;       // 64 inputs each
  int64_t units_per_group = 0;  // 1 or even
  int64_t num_groups = 0;
  int32_t bits = 0;
  int32_t scale_bytes = 0;  // of a scale
  int64_t scales_at = 0;    // bytes
  int64_t zeros_at = 0;
  int64_t mins_at = 0;
  int64_t order_at = 0;
  int64_t num_bytes = 0;

  // Returns 0 if a group is half a chunk.
  constexpr int chunks_per_group() const { return static_cast<int>(units_per_group / 2); }
  constexpr int64_t chunk_bytes() const { return int64_t{128} * bits; }
  // Returns the index of an output's group among the scales, the zeros and the mins.
  constexpr int64_t scale_index(int64_t output, int64_t group) const {
    return (output / kQuantTileOutputs * num_groups + group) * kQuantTileOutputs +
           output % kQuantTileOutputs;
  }
};

// The place of a code in its tile of 16 x 64: its byte and, for 4-bit codes, its nibble.
struct QuantCodeAt {
  int32_t byte = 0;
  int32_t shift = 0;
};
QuantCodeAt quant_code_at(int32_t bits, int32_t output, int32_t input);

// Returns ok if a GPU supports the weight: integers of 4 or 8 bits with or without zero points or
// minima, FP8 e4m3 or FP4 e2m1, with one level of scales per row or per group of a multiple of 32
// inputs; those of FP4 are E8M0. kUnimplemented names what is not supported.
Status check_quant_weight(const WeightSpec& spec);

QuantWeightLayout quant_weight_layout(const WeightSpec& spec);

// Packs rows into host memory of layout.num_bytes, which must start as zeros. Rows may come in any
// parts and in any order, each row once.
void pack_quant_weight(const PackedWeight& weight, const QuantRows& rows);
// Some rows, from a multiple of 16 on, packed as a weight of their own, and their place in the
// whole.
struct QuantPiece {
  int64_t to = 0;    // in the whole weight
  int64_t from = 0;  // in the rows' own
  int64_t num_bytes = 0;
};
std::array<QuantPiece, 4> quant_pieces(const WeightSpec& spec, int64_t first_row, int64_t num_rows);

// Does what pack_quant_columns() of api/quant.h does.
void pack_quant_weight_order(const PackedWeight& weight, const int32_t* source);

// On Hopper, more than a few rows go through the workspace.
int64_t quant_workspace_bytes(int64_t max_rows, const WeightSpec& spec);

// Implements linear() for such a weight: sums in float over products of bf16, with a scale applied
// to the sum of its group. K is cut into eight slices that depend on the weight alone and are added
// in order, so a row's bits do not depend on the number of rows (law L4).
void quant_linear(Stream& stream, const LinearParams& params);

}  // namespace quire::cuda
