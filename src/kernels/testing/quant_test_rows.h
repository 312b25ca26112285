// Random quantized weights of any format, for tests.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "kernels/api/quant.h"
#include "kernels/ref/ref.h"

namespace quire::kernel_test {

// Returns a well mixed, pure function of both (splitmix64).
inline uint32_t random_word(uint64_t seed, int64_t i) {
  uint64_t z = seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(i) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 30) * 0x94d049bb133111ebu;
  return static_cast<uint32_t>(z >> 32);
}

// Returns `count` stored scales of any type: all codes except NaN for code types, floats of both
// signs for others.
inline std::vector<uint8_t> random_scales(ScaleType type, uint64_t seed, int64_t count) {
  std::vector<uint8_t> bytes;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word = random_word(seed, i);
    const float value = (static_cast<float>(word) * 0x1p-31f - 1.0f) * 0.1f;
    const auto append = [&](const auto& stored) {
      const auto* from = reinterpret_cast<const uint8_t*>(&stored);
      bytes.insert(bytes.end(), from, from + sizeof stored);
    };
    switch (type) {
      case ScaleType::kNone:
        break;
      case ScaleType::kF32:
        append(value);
        break;
      case ScaleType::kF16:
        append(to_float16(value).bits);
        break;
      case ScaleType::kBF16:
        append(to_bfloat16(value).bits);
        break;
      case ScaleType::kE8M0:
        append(static_cast<uint8_t>(118 + word % 9));
        break;
      case ScaleType::kE4M3:
        append(static_cast<uint8_t>((word & 127) == 127 ? word & 0xf0 : word));
        break;
      case ScaleType::kU4:
        append(static_cast<uint8_t>(word & 15));
        break;
      case ScaleType::kU8:
      case ScaleType::kI8:
        append(static_cast<uint8_t>(word));
        break;
    }
  }
  return bytes;
}

// Random quantized rows, in the form in which checkpoint readers pass them.
struct QuantSource {
  QuantSource(const WeightSpec& weight_spec, uint64_t seed) : spec(weight_spec) {
    const QuantSpec& q = spec.quant;
    const int64_t groups = spec.n * q.num_groups(spec.k);
    const int64_t supers = spec.n * q.num_super_groups(spec.k);
    const bool has_min = q.zero_kind == ZeroKind::kMin;
    codes.resize(static_cast<size_t>(spec.n * spec.k));
    for (size_t i = 0; i < codes.size(); ++i) {
      const uint32_t word = random_word(seed, static_cast<int64_t>(i)) >> 7;
      codes[i] = static_cast<uint8_t>(word & ((1u << q.bits) - 1u));
      if (q.codebook == Codebook::kE4M3 && (codes[i] & 127) == 127) codes[i] = 0x81;
    }
    scales = random_scales(q.scale_type, seed + 1, groups);
    if (has_min) mins = random_scales(q.scale_type, seed + 2, groups);
    if (q.zero_kind == ZeroKind::kInteger) {
      zeros = random_scales(ScaleType::kU8, seed + 3, groups);
      for (uint8_t& zero : zeros) zero &= static_cast<uint8_t>((1 << q.bits) - 1);
    }
    super_scales = random_scales(q.super_scale_type, seed + 4, supers);
    if (has_min) super_mins = random_scales(q.super_scale_type, seed + 5, supers);
    order.resize(static_cast<size_t>(spec.k));
    std::iota(order.begin(), order.end(), 0);
    if (!q.has_column_order) return;
    for (int64_t i = spec.k - 1; i > 0; --i) {
      std::swap(order[i], order[random_word(seed + 6, i) % static_cast<uint32_t>(i + 1)]);
    }
  }

  // Returns rows [begin, end).
  QuantRows rows(int64_t begin, int64_t end) const {
    const auto part = [&](const std::vector<uint8_t>& array) -> const uint8_t* {
      return array.empty() ? nullptr
                           : array.data() + static_cast<int64_t>(array.size()) / spec.n * begin;
    };
    return {.codes = part(codes),
            .scales = part(scales),
            .mins = part(mins),
            .zeros = part(zeros),
            .super_scales = part(super_scales),
            .super_mins = part(super_mins),
            .first_row = begin,
            .num_rows = end - begin};
  }

  // Returns the weights [N, K], in the order of x.
  std::vector<float> dense() const {
    std::vector<float> packed_order(codes.size()), w(codes.size());
    ref::dequantize(spec, rows(0, spec.n), packed_order.data());
    for (int64_t i = 0; i < spec.n * spec.k; ++i) {
      w[i / spec.k * spec.k + order[i % spec.k]] = packed_order[i];
    }
    return w;
  }

  // Returns [N, K], the minimum that is subtracted from each weight.
  std::vector<float> minima() const {
    std::vector<uint8_t> none(codes.size(), 0);
    QuantRows zeros_only = rows(0, spec.n);
    zeros_only.codes = none.data();
    std::vector<float> out(codes.size());
    ref::dequantize(spec, zeros_only, out.data());
    return out;
  }

  WeightSpec spec;
  std::vector<uint8_t> codes, scales, mins, zeros, super_scales, super_mins;
  std::vector<int32_t> order;
};

}  // namespace quire::kernel_test
