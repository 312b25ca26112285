// The quantized formats that tests and the benchmark run over, as users have them.
#pragma once

#include <vector>

#include "kernels/api/quant_spec.h"

namespace quire::kernel_cases {

struct QuantFormat {
  const char* name;
  QuantSpec spec;
  bool in_benchmark = false;
};

inline const std::vector<QuantFormat>& quant_formats() {
  constexpr int64_t kRow = int64_t{1} << 40;  // one group per row, whatever K is
  constexpr auto kF32 = ScaleType::kF32, kF16 = ScaleType::kF16, kBF16 = ScaleType::kBF16;
  constexpr auto kMin = ZeroKind::kMin, kInteger = ZeroKind::kInteger;
  constexpr auto kE4M3 = Codebook::kE4M3;
  static const std::vector<QuantFormat> formats = {
      {"q4_0", {.bits = 4, .offset = 8, .group_size = 32, .scale_type = kF16}, true},
      {"q4_1", {.bits = 4, .group_size = 32, .scale_type = kF16, .zero_kind = kMin}},
      {"q5_0", {.bits = 5, .offset = 16, .group_size = 32, .scale_type = kF16}},
      {"q5_1", {.bits = 5, .group_size = 32, .scale_type = kF16, .zero_kind = kMin}},
      {"q8_0", {.bits = 8, .offset = 128, .group_size = 32, .scale_type = kF16}, true},
      {"q2_k",
       {.bits = 2,
        .group_size = 16,
        .scale_type = ScaleType::kU4,
        .zero_kind = kMin,
        .super_scale_type = kF16,
        .super_group_size = 256}},
      {"q3_k",
       {.bits = 3,
        .offset = 4,
        .group_size = 16,
        .scale_type = ScaleType::kI8,
        .super_scale_type = kF16,
        .super_group_size = 256}},
      {"q4_k",
       {.bits = 4,
        .group_size = 32,
        .scale_type = ScaleType::kU8,
        .zero_kind = kMin,
        .super_scale_type = kF16,
        .super_group_size = 256},
       true},
      {"q5_k",
       {.bits = 5,
        .group_size = 32,
        .scale_type = ScaleType::kU8,
        .zero_kind = kMin,
        .super_scale_type = kF16,
        .super_group_size = 256}},
      {"q6_k",
       {.bits = 6,
        .offset = 32,
        .group_size = 16,
        .scale_type = ScaleType::kI8,
        .super_scale_type = kF16,
        .super_group_size = 256},
       true},
      {"iq4_nl",
       {.bits = 4, .codebook = Codebook::kIq4Nl, .group_size = 32, .scale_type = kF16},
       true},
      {"iq4_xs",
       {.bits = 4,
        .codebook = Codebook::kIq4Nl,
        .group_size = 32,
        .scale_type = ScaleType::kI8,
        .super_scale_type = kF16,
        .super_group_size = 256}},
      {"mxfp4",
       {.bits = 4, .codebook = Codebook::kE2M1, .group_size = 32, .scale_type = ScaleType::kE8M0}},
      {"nvfp4",
       {.bits = 4,
        .codebook = Codebook::kE2M1,
        .group_size = 16,
        .scale_type = ScaleType::kE4M3,
        .super_scale_type = kF32,
        .super_group_size = kRow}},
      {"awq int4 g128",
       {.bits = 4, .group_size = 128, .scale_type = kF16, .zero_kind = kInteger},
       true},
      {"gptq int4 g128 act-order",
       {.bits = 4,
        .group_size = 128,
        .scale_type = kF16,
        .zero_kind = kInteger,
        .has_column_order = true}},
      {"gptq int3 g64", {.bits = 3, .group_size = 64, .scale_type = kF16, .zero_kind = kInteger}},
      {"gptq int2 g32", {.bits = 2, .group_size = 32, .scale_type = kF16, .zero_kind = kInteger}},
      {"gptq int8 g128", {.bits = 8, .group_size = 128, .scale_type = kF16, .zero_kind = kInteger}},
      {"int4 g128", {.bits = 4, .offset = 8, .group_size = 128, .scale_type = kBF16}, true},
      {"int4 per channel", {.bits = 4, .offset = 8, .group_size = kRow, .scale_type = kBF16}},
      {"int8 per channel",
       {.bits = 8, .offset = 128, .group_size = kRow, .scale_type = kF32},
       true},
      {"fp8 g128", {.bits = 8, .codebook = kE4M3, .group_size = 128, .scale_type = kF32}, true},
      {"fp8 per channel", {.bits = 8, .codebook = kE4M3, .group_size = kRow, .scale_type = kF32}},
      {"mxfp8", {.bits = 8, .codebook = kE4M3, .group_size = 32, .scale_type = ScaleType::kE8M0}},
      {"int8 g320", {.bits = 8, .offset = 128, .group_size = 320, .scale_type = kF16}},
      {"int4 g96 f32", {.bits = 4, .offset = 8, .group_size = 96, .scale_type = kF32}},
  };
  return formats;
}

}  // namespace quire::kernel_cases
