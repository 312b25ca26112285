#include "roofline/hardware/number_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace quire {
namespace {

constexpr std::array<std::string_view, kNumMathTypes> kMathNames = {"f32", "bf16", "fp8", "int8",
                                                                    "fp4"};

constexpr std::array<std::string_view, kNumKernelKinds> kKindNames = {
    "f32", "bf16", "fp8", "fp8_channel", "fp8_block", "int8", "w8a16", "int4", "mxfp4", "fp4"};
constexpr std::array<MathType, kNumKernelKinds> kKindMath = {
    MathType::kF32,  MathType::kBf16, MathType::kFp8,  MathType::kFp8,  MathType::kFp8,
    MathType::kInt8, MathType::kBf16, MathType::kBf16, MathType::kBf16, MathType::kFp4};

// Returns the kind of FP8 by the bits that scales add: none for one per tensor, 0.002 for one per
// 128 x 128 weights, 0.008 for one per channel of thousands of weights, and 0.25 for one per 32
// weights.
KernelKind fp8_kind(double bits) {
  if (bits < 8.001) return KernelKind::kFp8;
  return bits > 8.005 && bits < 8.1 ? KernelKind::kFp8Channel : KernelKind::kFp8Block;
}

struct NamedFormat {
  std::string_view name;
  NumberFormat format;
};

// The bits include scales: a GGUF block of 32 weights has one float16 scale (+0.5 bit), the
// k-quants' super blocks of 256 have those of their layout, and GPTQ and AWQ groups of 128 have a
// scale and a zero point.
constexpr NamedFormat kFormats[] = {
    {"float32", {32, MathType::kF32}},
    {"f32", {32, MathType::kF32}},
    {"bfloat16", {16, MathType::kBf16}},
    {"bf16", {16, MathType::kBf16}},
    {"float16", {16, MathType::kBf16}},
    {"f16", {16, MathType::kBf16}},
    {"half", {16, MathType::kBf16}},
    {"fp8", {8, MathType::kFp8}},
    {"fp8_e4m3", {8, MathType::kFp8}},
    {"fp8_e5m2", {8, MathType::kFp8}},
    {"float8_e4m3fn", {8, MathType::kFp8}},
    {"float8_e5m2", {8, MathType::kFp8}},
    {"fp8_block", {8.002, MathType::kFp8}},
    {"fp8_channel", {8.008, MathType::kFp8}},
    {"int8", {8, MathType::kInt8}},
    {"w8a16", {8.125, MathType::kBf16}},
    {"int4", {4.156, MathType::kBf16}},
    {"awq", {4.156, MathType::kBf16}},
    {"gptq", {4.156, MathType::kBf16}},
    {"nf4", {4.127, MathType::kBf16}},
    {"fp4", {4.5, MathType::kFp4}},
    {"nvfp4", {4.5, MathType::kFp4}},
    {"mxfp4", {4.25, MathType::kBf16}},
    {"q4_0", {4.5, MathType::kInt8}},
    {"q4_1", {5.0, MathType::kInt8}},
    {"q5_0", {5.5, MathType::kInt8}},
    {"q5_1", {6.0, MathType::kInt8}},
    {"q8_0", {8.5, MathType::kInt8}},
    {"q2_k", {2.625, MathType::kInt8}},
    {"q3_k", {3.4375, MathType::kInt8}},
    {"q4_k", {4.5, MathType::kInt8}},
    {"q5_k", {5.5, MathType::kInt8}},
    {"q6_k", {6.5625, MathType::kInt8}},
    {"iq4_nl", {4.5, MathType::kInt8}},
    {"iq4_xs", {4.25, MathType::kInt8}},
    // IQ types of less than 4 bits are stored as 4-bit codes.
    {"iq1_s", {4.375, MathType::kBf16}},
    {"iq1_m", {4.625, MathType::kBf16}},
    {"iq2_xxs", {4.375, MathType::kBf16}},
    {"iq2_xs", {4.625, MathType::kBf16}},
    {"iq2_s", {4.625, MathType::kBf16}},
    {"iq3_xxs", {4.375, MathType::kBf16}},
    {"iq3_s", {4.375, MathType::kBf16}},
    {"bitnet", {2.125, MathType::kBf16}},  // one float32 scale per 256 codes
    {"tq1_0", {2.0625, MathType::kInt8}},
    {"tq2_0", {2.0625, MathType::kInt8}},
};

}  // namespace

std::string_view to_string(MathType math) { return kMathNames[static_cast<size_t>(math)]; }

std::string_view to_string(KernelKind kind) { return kKindNames[static_cast<size_t>(kind)]; }
MathType math_of(KernelKind kind) { return kKindMath[static_cast<size_t>(kind)]; }

KernelKind kernel_kind(const NumberFormat& format) {
  constexpr double kMxfp4Bits = 4.25;  // a scale of 8 bits per 32 weights
  constexpr double kRoundingBits = 0.03;
  switch (format.math) {
    case MathType::kF32:
      return KernelKind::kF32;
    case MathType::kFp8:
      return fp8_kind(format.bits);
    case MathType::kInt8:
      return KernelKind::kInt8;
    case MathType::kFp4:
      return KernelKind::kFp4;
    case MathType::kBf16:
      break;
  }
  if (format.bits > 10) return KernelKind::kBf16;
  if (format.bits > 6.5) return KernelKind::kW8a16;
  return std::abs(format.bits - kMxfp4Bits) < kRoundingBits ? KernelKind::kMxfp4
                                                            : KernelKind::kInt4;
}

std::optional<MathType> parse_math_type(std::string_view name) {
  const auto* it = std::find(kMathNames.begin(), kMathNames.end(), name);
  if (it == kMathNames.end()) return std::nullopt;
  return static_cast<MathType>(it - kMathNames.begin());
}

std::optional<NumberFormat> parse_number_format(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  for (const NamedFormat& named : kFormats) {
    if (named.name == lower) return named.format;
  }
  return std::nullopt;
}

std::string_view name_of(const NumberFormat& format) {
  for (const NamedFormat& named : kFormats) {
    if (named.format == format) return named.name;
  }
  return {};
}

}  // namespace quire
