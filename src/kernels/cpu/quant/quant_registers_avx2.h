// How many rows, sums and strips the quantized kernels keep in the 16 registers of AVX2, with and
// without AVX-VNNI. Included after quant_codes_avx2.h.
#pragma once

namespace quire {
namespace {

template <cpu::CodeKind>
constexpr int64_t kFusedRows = 2;
constexpr int64_t kQuadRows = 0;
// 12 of 16 registers hold sums of 6 x 16 outputs.
constexpr int64_t kRowBlock = 6;
constexpr int64_t kSmallGroupRows = kRowBlock;
constexpr int kSumVectors = 10;
constexpr int kDecodedStrips = 1;
constexpr bool kLooksUpAll = false;
constexpr int kBlockStrips = 1;
constexpr bool kFloatBlocks = true;
// In integers 12 of 16 registers hold sums of 6 x 16 outputs.
constexpr int64_t kIntegerRowBlock = 6;
constexpr int64_t kIntegerFusedRows = 4;
constexpr int kIntegerSumVectors = 4;

}  // namespace
}  // namespace quire
