// Products with quantized weights for this instruction set.
#include "kernels/cpu/quant/quant-inl.h"
#include "kernels/cpu/quant/quant_registers_avx512.h"

namespace quire {
namespace {

struct Avx512Quant : Avx512QuantRegisters {
  // Decoding codes of many bits takes more registers from the products.
  template <cpu::CodeKind KIND>
  static constexpr int64_t kFusedRows =
      KIND == cpu::kCode6 || KIND == cpu::kCode8 || KIND == cpu::kTable8 ? 4 : 8;
  template <cpu::CodeKind, bool>
  static constexpr int64_t kQuadRows = 2;
  static constexpr int64_t kSmallGroupRows = 8;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const QuantKernels kQuantAvx512 = kQuantOver<Avx512Quant>;

}  // namespace quire::cpu
