// Products with quantized weights in integers, with AVX512_VNNI.
#include "kernels/cpu/quant/integers/quant_bytes-inl.h"
#include "kernels/cpu/quant/integers/quant_integers-inl.h"

namespace quire {
namespace {

struct Avx512VnniQuantIntegers {
  template <cpu::CodeKind>
  static constexpr int64_t kFusedRows = 8;
  template <cpu::CodeKind, bool>
  static constexpr int64_t kQuadRows = 4;
  // 24 of 32 registers hold sums of 12 x 32 outputs.
  static constexpr int64_t kRowBlock = 12;
  static constexpr int kBlockStrips = 1;
  static constexpr int64_t kSmallGroupRows = kRowBlock;
  static constexpr int kSumVectors = 28;
  template <cpu::CodeKind>
  static constexpr int kDecodedStrips = 4;
  // With this, decode takes 1 to 3 % less time for these kinds; others would take up to 9 % more.
  template <cpu::CodeKind KIND, bool DIRECT>
  static constexpr bool kPairsApart = DIRECT || KIND == cpu::kCode6;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const QuantKernels kQuantAvx512Vnni = kQuantIntegersOver<Avx512VnniQuantIntegers>;
const QuantKernels kQuantAvx512Bytes = quant_over_bytes<Avx512VnniQuantIntegers>();

}  // namespace quire::cpu
