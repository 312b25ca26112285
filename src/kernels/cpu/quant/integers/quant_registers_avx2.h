// The part of the integer kernels' QuantTraits that depends on the 16 registers of AVX2, with and
// without AVX-VNNI.
#pragma once

#include <stdint.h>

#include "kernels/cpu/quant/quant_tables.h"

namespace quire {
namespace {

struct Avx2IntegerRegisters {
  template <cpu::CodeKind>
  static constexpr int64_t kFusedRows = 4;
  // 12 of 16 registers hold sums of 6 x 16 outputs.
  static constexpr int64_t kRowBlock = 6;
  static constexpr int kBlockStrips = 1;
  static constexpr int64_t kSmallGroupRows = kRowBlock;
  static constexpr int kSumVectors = 4;
};

}  // namespace
}  // namespace quire
