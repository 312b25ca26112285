// How many rows, sums and strips the quantized kernels keep in the 32 registers of AVX-512 where
// products are sums of floats. Included after quant_codes_avx512.h.
#pragma once

namespace quire {
namespace {

// Decoding runs beside the products of a block; codes of many bits take more of it, and more
// registers.
template <cpu::CodeKind KIND>
constexpr int64_t kFusedRows =
    KIND == cpu::kCode6 || KIND == cpu::kCode8 || KIND == cpu::kTable8 ? 4 : 8;
constexpr int64_t kQuadRows = 2;
// 24 of 32 registers hold sums of 12 x 32 outputs.
constexpr int64_t kRowBlock = 12;
constexpr int64_t kSmallGroupRows = 8;
constexpr int kSumVectors = 28;
constexpr int kDecodedStrips = 4;
constexpr bool kLooksUpAll = true;
constexpr int kBlockStrips = 2;
constexpr bool kFloatBlocks = false;
// Measured in decode: 1 to 3 % less time for these, up to 9 % more for others.
template <cpu::CodeKind KIND, bool kDirectScales>
constexpr bool kPairsApart = kDirectScales || KIND == cpu::kCode6;

}  // namespace
}  // namespace quire
