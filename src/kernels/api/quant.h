// Weight-only quantized matrices: packed once at load, multiplied by linear() like any other.
//
//   WeightSpec spec{.n = N, .k = K, .compute = ComputeType::kBF16,
//                   .quant = {.bits = 4, .offset = 8, .group_size = 32,
//                             .scale_type = ScaleType::kF16}};            // GGUF Q4_0
//   QUIRE_RETURN_IF_ERROR(check_quant(spec));
//   PackedWeight w{spec, arena.allocate_bytes(packed_weight_bytes(spec))};
//   pack_quant_rows(stream, w, {.codes = q, .scales = d, .first_row = 0, .num_rows = 128}); …
//
// Packed, a weight takes its bits and its share of the scales: what it takes on disk, within a few
// per cent (Q4_K 4.625 bits, int4 in groups of 128 with zero points 4.19). WeightSpec::dtype is not
// used.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/api/linear.h"

namespace quire {

// Whether the kernels take this weight; else an error that names the field and what was expected.
// Everything below has this as its precondition.
Status check_quant(const WeightSpec& spec);

// Whether ComputeType::kInt8 goes with a quantized weight: its codes stand for integers, in groups of
// up to 256. Then each group of 16 to 256 activations of a row is rounded to int8 with a scale of its
// own, max|x| / 127, and the products of a group are summed exactly.
bool takes_int8_activations(const WeightSpec& spec);

// Rows [first_row, first_row + num_rows) of W. G = num_groups(K), S = num_super_groups(K). Arrays
// need no alignment. Codes and code-scales are one per byte and must be in range (pack refuses by
// QUIRE_CHECK what does not fit its bits).
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
// Parts of one weight may be packed in any order, each row once; the call works on all threads.
void pack_quant_rows(Stream& stream, const PackedWeight& weight, const QuantRows& rows);

// Packed column j (column j of QuantRows::codes) multiplies x[source[j]]; `source` is a permutation
// of 0 … K - 1, for the whole weight. It must be called once per weight with has_column_order.
void pack_quant_columns(const PackedWeight& weight, const int32_t* source);

// Returns row `row` of a quantized weight as the floats that it stands for, in the order of x.
// `out` is [K]. Embedding look-ups and tests use it; any thread may call it.
void unpack_quant_row(const PackedWeight& weight, int64_t row, float* out);

}  // namespace quire
