// Products with quantized weights in integers, with AVX-VNNI.
#include "kernels/cpu/quant/integers/quant_integers-inl.h"
#include "kernels/cpu/quant/integers/quant_registers_avx2.h"

namespace quire {
namespace {

struct Avx2VnniQuantIntegers : Avx2IntegerRegisters {
  template <cpu::CodeKind KIND>
  static constexpr int kDecodedStrips = KIND == cpu::kCode8 ? 4 : 1;
  // With this, decode takes 1 to 4 % less time; with codes of 2 bits it would take 3 % more.
  template <cpu::CodeKind KIND, bool>
  static constexpr bool kPairsApart = KIND != cpu::kCode2;
  // One pass over a panel instead of two takes 4 to 10 % less time for codes of 4 to 6 bits, and 6
  // to 8 % more for codes of fewer bits.
  template <cpu::CodeKind KIND, bool DIRECT>
  static constexpr int64_t kQuadRows = DIRECT ? (KIND == cpu::kCode8 ? 2 : 1)
                                              : (KIND >= cpu::kCode4 ? 1 : 0);
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const QuantKernels kQuantAvx2Vnni = kQuantIntegersOver<Avx2VnniQuantIntegers>;

}  // namespace quire::cpu
