// What the quantized kernels keep in the 32 registers of AVX-512, with and without BF16 and VNNI.
// Included after quant_codes_avx512.h.
#pragma once

namespace quire {
namespace {

// 24 of 32 registers hold sums of 12 x 32 outputs.
constexpr int64_t kRowBlock = 12;
constexpr int kSumVectors = 28;
constexpr int kDecodedStrips = 4;
constexpr bool kLooksUpAll = true;
constexpr int kBlockStrips = 2;
constexpr bool kFloatBlocks = false;
// Measured in decode: 1 to 3 % less time for these, up to 9 % more for others.
template <cpu::CodeKind KIND, bool kDirectScales>
constexpr bool kPairsApart = kDirectScales || KIND == cpu::kCode6;
#ifdef __AVX512BF16__
// Decoding runs beside the products of a block, so repeating it per block costs less than storing
// what it gives; codes of many bits take more of it.
template <cpu::CodeKind KIND>
constexpr int64_t kFusedRows = KIND == cpu::kCode6 || KIND == cpu::kCode8 ? 24 : 48;
// 24 registers hold sums of 6 x 64 outputs; fewer where groups end often.
constexpr int64_t kQuadRows = 6;
constexpr int64_t kSmallGroupRows = 10;
#else
// Codes of many bits take more registers beside the products.
template <cpu::CodeKind KIND>
constexpr int64_t kFusedRows =
    KIND == cpu::kCode6 || KIND == cpu::kCode8 || KIND == cpu::kTable8 ? 4 : 8;
constexpr int64_t kQuadRows = 2;
constexpr int64_t kSmallGroupRows = 8;
#endif

}  // namespace
}  // namespace quire
