// Products with quantized weights for this instruction set.
#include "kernels/cpu/quant/quant-inl.h"
#include "kernels/cpu/quant/quant_registers_avx512.h"

namespace quire {
namespace {

struct Avx512Bf16Quant : Avx512QuantRegisters {
  // Decoding overlaps with the products of a block, so repeating it for each block costs less than
  // storing its results. Codes of many bits take more decoding.
  template <cpu::CodeKind KIND>
  static constexpr int64_t kFusedRows = KIND == cpu::kCode6 || KIND == cpu::kCode8 ? 24 : 48;
  // 24 registers hold sums of 6 x 64 outputs; if groups are short, fewer.
  template <cpu::CodeKind, bool>
  static constexpr int64_t kQuadRows = 6;
  static constexpr int64_t kSmallGroupRows = 10;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const QuantKernels kQuantAvx512Bf16 = kQuantOver<Avx512Bf16Quant>;

}  // namespace quire::cpu
