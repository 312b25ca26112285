// Weight-only quantized matrices are packed once, when a model is loaded, and multiplied by
// linear().
//
//   WeightSpec spec{.n = N, .k = K, .compute = ComputeType::kBF16,
//                   .quant = {.bits = 4, .offset = 8, .group_size = 32,
//                             .scale_type = ScaleType::kF16}};            // GGUF Q4_0
//   QUIRE_RETURN_IF_ERROR(check_quant(spec));
//   PackedWeight w{spec, arena.allocate_bytes(packed_weight_bytes(spec))};
//   pack_quant_rows(stream, w, {.codes = q, .scales = d, .first_row = 0, .num_rows = 128}); …
//
// A packed weight takes about as many bytes as on disk, within a few per cent: for each element its
// code and its share of the scales (Q4_K 4.625 bits, int4 in groups of 128 with zero points 4.19).
// The CPU's kernels do not use WeightSpec::dtype.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/api/linear.h"

namespace quire {

// Returns an error if the kernels cannot take this weight. The error names the field and what was
// expected. All functions below require that this returned no error.
Status check_quant(const WeightSpec& spec);

// Returns whether a quantized weight can have ComputeType::kInt8: its codes must stand for
// integers, in groups of up to 256. With kInt8 each group of 16 to 256 activations of a row is
// rounded to int8 with a scale of its own, max|x| / 127, and the products of a group are summed
// exactly.
bool takes_int8_activations(const WeightSpec& spec);

// Rows [first_row, first_row + num_rows) of W. G = num_groups(K), S = num_super_groups(K). Arrays
// need no alignment. Codes, and scales that are codes, are one per byte and must be in range.
// pack_quant_rows() fails a QUIRE_CHECK for a code that does not fit its bits, and for a 4-bit
// scale and minimum that do not fit in the byte that they share.
struct QuantRows {
  const uint8_t* codes = nullptr;      // [num_rows, K]
  const void* scales = nullptr;        // [num_rows, G] of scale_type
  const void* mins = nullptr;          // kMin: [num_rows, G] of scale_type (u8 where scales are i8)
  const uint8_t* zeros = nullptr;      // kInteger: [num_rows, G]
  const void* super_scales = nullptr;  // two levels: [num_rows, S] of super_scale_type
  const void* super_mins = nullptr;    // two levels and kMin: [num_rows, S] of super_scale_type
  int64_t first_row = 0;
  int64_t num_rows = 0;
};
// Packs some rows of a weight on all threads of the stream's team. Calls for one weight may come in
// any order and must pack each row once.
void pack_quant_rows(Stream& stream, const PackedWeight& weight, const QuantRows& rows);

// Stores the column order of a weight: packed column j, which is column j of QuantRows::codes,
// multiplies x[source[j]]. `source` is a permutation of 0 … K - 1. A weight with has_column_order
// needs exactly one such call.
void pack_quant_columns(const PackedWeight& weight, const int32_t* source);

// Writes row `row` of a quantized weight to `out` [K] as the floats that it stands for, in the
// order of x. Embedding look-ups and tests use it; any thread may call it.
void unpack_quant_row(const PackedWeight& weight, int64_t row, float* out);

}  // namespace quire
