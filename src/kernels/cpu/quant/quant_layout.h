// The layout of a packed quantized weight: [panels][code values][column order].
#pragma once

#include "kernels/api/quant.h"
#include "kernels/cpu/quant/quant_tables.h"

namespace quire::cpu {

QuantLayout quant_layout(const WeightSpec& spec);

struct QuantWeightView {
  uint8_t* panels;
  int64_t num_panels;
  CodeValues* values;
  int32_t* column_order;  // null unless the spec has a column order
};
QuantWeightView quant_view(const PackedWeight& weight, const QuantLayout& layout);
int64_t quant_packed_bytes(const WeightSpec& spec);

// Returns the bytes of one stored scale.
int64_t size_bytes(ScaleType type);
// Returns the number that a stored scale, or scale code, stands for.
float scale_value(ScaleType type, const uint8_t* stored);

CodeValues code_values(const QuantSpec& spec);
// Returns the largest |c| of all codes.
float largest_code_value(const QuantSpec& spec);

// The widths of the planes of a code of `bits` bits, the most significant last.
struct CodePlanes {
  int count;
  int width[2];
};
CodePlanes code_planes(int bits);

}  // namespace quire::cpu
