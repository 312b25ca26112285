// NumberFormat: how numbers are stored and multiplied, for the cost model. It has their bits in
// memory, and the unit of the hardware that multiplies them.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

// The unit that multiplies; hardware has one peak for each.
enum class MathType : uint8_t { kF32, kBf16, kFp8, kInt8, kFp4 };
inline constexpr int kNumMathTypes = 5;

std::string_view to_string(MathType math);  // "f32", "bf16", "fp8", "int8", "fp4"
std::optional<MathType> parse_math_type(std::string_view name);

struct NumberFormat {
  double bits = 16;  // per element, including scales and zero points
  MathType math = MathType::kBf16;

  double bytes() const { return bits / 8; }
  friend auto operator<=>(const NumberFormat&, const NumberFormat&) = default;
};

// The kernels that multiply by weights of one kind. Formats of one kind share constants; formats of
// one MathType need not, since kernels for scales per tensor, per output channel and per block
// differ in speed.
enum class KernelKind : uint8_t {
  kF32,
  kBf16,
  kFp8,         // one scale per tensor
  kFp8Channel,  // one scale per output channel, and one per token of the activations
  kFp8Block,
  kInt8,
  kW8a16,  // 8-bit weights that are multiplied as bf16
  kInt4,   // the same with at most 6 bits, in groups
  kMxfp4,
  kFp4,
};
inline constexpr int kNumKernelKinds = 10;

std::string_view to_string(
    KernelKind kind);  // the name of a format of that kind: "bf16", "fp8_block"
KernelKind kernel_kind(const NumberFormat& format);
MathType math_of(KernelKind kind);

// Parses "float32", "bfloat16", "float16" (same cost as bfloat16), "fp8", "fp8_channel",
// "fp8_block", "int8", "int4", "fp4", "mxfp4" and the GGUF types ("q4_0", "q4_k", "q5_k", "q6_k",
// "q8_0", …). nullopt: the name is unknown.
std::optional<NumberFormat> parse_number_format(std::string_view name);
// Returns the first of those names for this format; empty if there is none.
std::string_view name_of(const NumberFormat& format);

}  // namespace quire
