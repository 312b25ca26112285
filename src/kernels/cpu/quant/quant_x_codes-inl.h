// Rounds activations to int8 codes, each group of a row from that group alone (law L4).
#pragma once

#include "kernels/cpu/quant/quant_codes-inl.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/quant/quant_x-inl.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

using cpu::PackQuantXArgs;
using cpu::QuantLayout;

// A group of a row as codes: round(x * 127 / max|x|), ties to even, in units of max|x| / 127. A
// group with max|x| < 2^-120 has the unit 0, and one with an infinity or NaN has the unit NaN.
struct GroupOfCodes {
  int64_t begin, end;  // columns
  float unit;
  int32_t sum;  // the sum of its codes
  alignas(64) int8_t codes[cpu::kMostIntegerGroup];
};

[[maybe_unused]] static void take_group(const PackQuantXArgs& args, const float* x,
                                        GroupOfCodes& group) {
  F16 v[cpu::kMostIntegerGroup / 16];
  F16 most = zero(), poison = zero();  // x * 0 is NaN where x is not finite
  for (int64_t k = group.begin; k < group.end; k += 16) {
    const int64_t i = (k - group.begin) / 16;
    v[i] = load_x(args, x, k);
    most = max(abs(v[i]), most);
    poison = add(poison, mul(v[i], zero()));
  }
  const float largest = reduce_max(most);
  const bool is_zero = largest < 0x1p-120f;  // below, 127 / largest would overflow
  const F16 inverse = set1(is_zero ? 0.0f : 127.0f / largest);
  group.unit = (is_zero ? 0.0f : largest / 127.0f) + reduce_add(poison);
  group.sum = 0;
  for (int64_t i = 0; i < (group.end - group.begin) / 16; ++i) {
    store_i8(group.codes + 16 * i, mul(v[i], inverse));
    for (int64_t j = 0; j < 16; ++j) group.sum += group.codes[16 * i + j];
  }
}

// Calls put(row, g, group) for every group of every row.
template <class Put>
QUIRE_SIMD void for_code_groups(const PackQuantXArgs& args, Put put) {
  const QuantLayout& layout = *args.layout;
  for (int64_t row = 0; row < args.num_rows; ++row) {
    for (int64_t g = 0; g < layout.num_groups; ++g) {
      GroupOfCodes group;
      group.begin = g * layout.group_size;
      group.end = group.begin + layout.group_size;
      if (group.end > layout.padded_k) group.end = layout.padded_k;
      take_group(args, args.x + row * args.x_stride, group);
      put(row, g, group);
    }
  }
}

// Packs codes as floats for CodeMath; they are exact in bf16 too.
[[maybe_unused]] static void pack_code_floats(const PackQuantXArgs& args) {
  constexpr int64_t kWords = 8 * kPairSlots;  // 16 activations
  for_code_groups(args, [&](int64_t row, int64_t g, const GroupOfCodes& group) {
    float* out = args.out + (group.begin / 2 * args.num_rows + row) * kPairSlots;
    for (int64_t k = 0; k < group.end - group.begin; k += 16) {
      float words[kWords];
      const F16 v = load_i8(reinterpret_cast<const uint8_t*>(group.codes + k));
      if constexpr (kPairSlots == 2) {
        store(words, v);
      } else {
        store_pair_slots(words, 0, v);
      }
      for (int64_t i = 0; i < 8; ++i) {
        __builtin_memcpy(out, words + i * kPairSlots, kPairSlots * sizeof(float));
        out += args.num_rows * kPairSlots;
      }
    }
    float* slots = args.groups + g * 2 * args.num_rows + row;
    slots[0] = -static_cast<float>(group.sum) * group.unit;
    slots[args.num_rows] = group.unit;
  });
}

}  // namespace
}  // namespace quire
