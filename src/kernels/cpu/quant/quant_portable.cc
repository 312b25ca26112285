// Products with quantized weights for this instruction set.
#include "kernels/cpu/quant/quant-inl.h"

namespace quire {
namespace {

struct PortableQuant {
  template <cpu::CodeKind>
  static constexpr int64_t kFusedRows = 1;
  template <cpu::CodeKind, bool>
  static constexpr int64_t kQuadRows = 0;
  // Sums of 16 lanes; the baseline has few registers.
  static constexpr int64_t kRowBlock = 4;
  static constexpr int kBlockStrips = 1;
  static constexpr int64_t kSmallGroupRows = kRowBlock;
  static constexpr int kSumVectors = 8;
  template <cpu::CodeKind>
  static constexpr int kDecodedStrips = 1;
  template <cpu::CodeKind, bool>
  static constexpr bool kPairsApart = false;
  static constexpr bool kFloatBlocks = false;
  static constexpr bool kLooksUpAll = false;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const QuantKernels kQuantPortable = kQuantOver<PortableQuant>;
const QuantKernels kQuantPortableCodes = quant_over_codes<PortableQuant>();

}  // namespace quire::cpu
