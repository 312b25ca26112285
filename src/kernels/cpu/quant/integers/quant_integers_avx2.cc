// Products with quantized weights in integers for this instruction set.
#include "kernels/cpu/quant/integers/quant_integers-inl.h"
#include "kernels/cpu/quant/integers/quant_registers_avx2.h"

namespace quire {
namespace {

struct Avx2QuantIntegers : Avx2IntegerRegisters {
  template <cpu::CodeKind>
  static constexpr int kDecodedStrips = 1;
  // With this, decode takes 2 to 7 % less time for these kinds; others would take 1 to 3 % more.
  template <cpu::CodeKind KIND, bool>
  static constexpr bool kPairsApart = KIND == cpu::kCode8;
  // One pass over a panel is better than two, of which only the first waits for memory, unless the
  // scales of all strips must be expanded side by side, which costs more.
  template <cpu::CodeKind KIND, bool DIRECT>
  static constexpr int64_t kQuadRows = DIRECT ? (KIND == cpu::kCode8 ? 2 : 1) : 0;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const QuantKernels kQuantAvx2Integers = kQuantIntegersOver<Avx2QuantIntegers>;

}  // namespace quire::cpu
