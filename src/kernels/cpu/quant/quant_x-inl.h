// Packs activations for quantized weights, in the form for broadcasts, and sums them.
#pragma once

#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

using cpu::PackQuantXArgs;
using cpu::QuantLayout;

// Returns 16 activations from column k on, with zeros past K.
QUIRE_SIMD F16 load_x(const PackQuantXArgs& args, const float* x, int64_t k) {
  const int64_t left = args.layout->k - k;
  if (left <= 0) return zero();
  const int64_t n = left < 16 ? left : 16;
  if (args.column_order == nullptr) return n == 16 ? load(x + k) : load_n(x + k, n);
  float s[16] = {};
  for (int64_t i = 0; i < n; ++i) s[i] = x[args.column_order[k + i]];
  return load(s);
}

template <bool kRound>
static void pack_quant_x(const PackQuantXArgs& args) {
  const QuantLayout& layout = *args.layout;
  constexpr int64_t kWords = 8 * kPairSlots;  // 16 activations
  for (int64_t r = 0; r < args.num_rows; ++r) {
    const float* x = args.x + r * args.x_stride;
    float* out = args.out + r * kPairSlots;
    F16 sum = zero();
    for (int64_t k = 0, group_end = layout.group_size; k < layout.padded_k; k += 16) {
      F16 v = load_x(args, x, k);
      if constexpr (kRound) v = round_to_bf16(v);
      float words[kWords];
      if constexpr (kPairSlots == 2) {
        store(words, v);
      } else {
        store_pair_slots(words, 0, v);
      }
      for (int64_t i = 0; i < 8; ++i) {
        __builtin_memcpy(out, words + i * kPairSlots, kPairSlots * sizeof(float));
        out += args.num_rows * kPairSlots;
      }
      sum = add(sum, v);
      if (k + 16 == group_end || k + 16 == layout.padded_k) {
        args.groups[group_end / layout.group_size * args.num_rows - args.num_rows + r] =
            -reduce_add(sum);
        sum = zero();
        group_end += layout.group_size;
      }
    }
  }
}

}  // namespace
}  // namespace quire
