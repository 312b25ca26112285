// The part of QuantFloatTraits that depends on the 32 registers of AVX-512, with and without BF16.
#pragma once

#include <stdint.h>

#include "kernels/cpu/quant/quant_tables.h"

namespace quire {
namespace {

struct Avx512QuantRegisters {
  // 24 of 32 registers hold sums of 12 x 32 outputs.
  static constexpr int64_t kRowBlock = 12;
  static constexpr int kBlockStrips = 2;
  static constexpr int kSumVectors = 28;
  template <cpu::CodeKind>
  static constexpr int kDecodedStrips = 4;
  // With this, decode takes 1 to 3 % less time for these kinds; others would take up to 9 % more.
  template <cpu::CodeKind KIND, bool DIRECT>
  static constexpr bool kPairsApart = DIRECT || KIND == cpu::kCode6;
  static constexpr bool kFloatBlocks = false;
  static constexpr bool kLooksUpAll = true;
};

}  // namespace
}  // namespace quire
