// Products with quantized weights for this instruction set.
#include "kernels/cpu/quant/quant-inl.h"
#include "kernels/cpu/quant/quant_registers_avx512.h"

namespace quire {
namespace {

struct Avx512Bf16Quant : Avx512QuantRegisters {
  // Decoding runs beside the products of a block, so repeating it per block costs less than storing
  // what it gives; codes of many bits take more of it.
  template <cpu::CodeKind KIND>
  static constexpr int64_t kFusedRows = KIND == cpu::kCode6 || KIND == cpu::kCode8 ? 24 : 48;
  // 24 registers hold sums of 6 x 64 outputs; fewer where groups end often.
  template <cpu::CodeKind, bool>
  static constexpr int64_t kQuadRows = 6;
  static constexpr int64_t kSmallGroupRows = 10;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const QuantKernels kQuantAvx512Bf16 = kQuantOver<Avx512Bf16Quant>;

}  // namespace quire::cpu
