// Norms, activations, and the rows of embeddings and rotary embeddings. One call reduces a whole
// row, with four accumulators over the vectors i mod 4, so the bits of a row depend on that row
// alone.
#pragma once

#include "kernels/cpu/element/math-inl.h"
#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/simd/stored_rows-inl.h"

namespace quire {
namespace {

using cpu::ActivationKind;
using cpu::RopeHeadArgs;
using cpu::Storage;

// sum_of() returns the sum over i < n of Term::of(x[i], parameter). Lanes after the end are not
// counted, so Term::of(0) can be anything.
struct Identity {
  QUIRE_SIMD F16 of(F16 x, F16) { return x; }
};
struct SquareOfDifference {
  QUIRE_SIMD F16 of(F16 x, F16 mean) { return mul(sub(x, mean), sub(x, mean)); }
};
template <class Term>
static float sum_of(const float* x, float parameter, int64_t n) {
  const F16 p = set1(parameter);
  F16 acc[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int j = 0; j < 4; ++j) acc[j] = add(acc[j], Term::of(load(x + i + 16 * j), p));
  }
  for (int j = 0; i < n; i += 16, ++j) {
    F16 term = Term::of(load_at(x, i, n), p);
    if (n - i < 16) {
      float lanes[16];
      store(lanes, term);
      for (int64_t lane = n - i; lane < 16; ++lane) lanes[lane] = 0.0f;
      term = load(lanes);
    }
    acc[j] = add(acc[j], term);
  }
  return reduce_add(add(add(acc[0], acc[1]), add(acc[2], acc[3])));
}

static void rms_norm_row(const float* x, const float* weight, float* out, float* add_to, float eps,
                         int64_t n) {
  const float mean_square = sum_of<SquareOfDifference>(x, 0.0f, n) / static_cast<float>(n);
  const F16 scale = set1(1.0f / __builtin_sqrtf(mean_square + eps));
  for (int64_t i = 0; i < n; i += 16) {
    const F16 y = mul(mul(load_at(x, i, n), scale), load_at(weight, i, n));
    if (add_to != nullptr) {
      store_at(add_to, i, n, add(load_at(add_to, i, n), y));
    } else {
      store_at(out, i, n, y);
    }
  }
}

static void layer_norm_row(const float* x, const float* weight, const float* bias, float* out,
                           float eps, int64_t n) {
  const float count = static_cast<float>(n);
  const float mean = sum_of<Identity>(x, 0.0f, n) / count;
  const float variance = sum_of<SquareOfDifference>(x, mean, n) / count;
  const F16 scale = set1(1.0f / __builtin_sqrtf(variance + eps));
  for (int64_t i = 0; i < n; i += 16) {
    F16 y = mul(mul(sub(load_at(x, i, n), set1(mean)), scale), load_at(weight, i, n));
    if (bias != nullptr) y = add(y, load_at(bias, i, n));
    store_at(out, i, n, y);
  }
}

struct Silu {
  QUIRE_SIMD F16 of(F16 x) { return silu(x); }
};
struct GeluTanh {
  QUIRE_SIMD F16 of(F16 x) { return gelu_tanh(x); }
};
struct GeluErf {
  QUIRE_SIMD F16 of(F16 x) { return gelu_erf(x); }
};
struct Relu {
  QUIRE_SIMD F16 of(F16 x) { return max(zero(), x); }
};
struct Relu2 {
  QUIRE_SIMD F16 of(F16 x) {
    const F16 y = max(zero(), x);
    return mul(y, y);
  }
};
struct QuickGelu {
  QUIRE_SIMD F16 of(F16 x) { return quick_gelu(x); }
};
struct Tanh {
  QUIRE_SIMD F16 of(F16 x) { return tanh(x); }
};
template <class Function>
static void activate_with(const float* x, const float* gate, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    F16 y = Function::of(load_at(x, i, n));
    if (gate != nullptr) y = mul(y, load_at(gate, i, n));
    store_at(out, i, n, y);
  }
}
static void activate(ActivationKind kind, const float* x, const float* gate, float* out,
                     int64_t n) {
  switch (kind) {
    case cpu::kActSilu:
      return activate_with<Silu>(x, gate, out, n);
    case cpu::kActGeluTanh:
      return activate_with<GeluTanh>(x, gate, out, n);
    case cpu::kActGeluErf:
      return activate_with<GeluErf>(x, gate, out, n);
    case cpu::kActRelu:
      return activate_with<Relu>(x, gate, out, n);
    case cpu::kActRelu2:
      return activate_with<Relu2>(x, gate, out, n);
    case cpu::kActQuickGelu:
      return activate_with<QuickGelu>(x, gate, out, n);
    case cpu::kActTanh:
      return activate_with<Tanh>(x, gate, out, n);
  }
}

static void soft_cap_range(float* x, float cap, int64_t n) {
  const F16 c = set1(cap);
  for (int64_t i = 0; i < n; i += 16) {
    store_at(x, i, n, mul(c, tanh(div(load_at(x, i, n), c))));
  }
}

static void embed_row(Storage storage, const void* row, float scale, const void* position_row,
                      float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    F16 y = mul(load_stored(storage, row, i, n), set1(scale));
    if (position_row != nullptr) y = add(y, load_stored(storage, position_row, i, n));
    store_at(out, i, n, y);
  }
}

static void rope_head(const RopeHeadArgs& args) {
  const int64_t half = args.rotary_dim / 2;
  if (args.interleaved) {
    for (int64_t i = 0; i < half; ++i) {
      const float a = args.head[2 * i];
      const float b = args.head[2 * i + 1];
      args.head[2 * i] = a * args.cos[i] - b * args.sin[i];
      args.head[2 * i + 1] = b * args.cos[i] + a * args.sin[i];
    }
    return;
  }
  float* first = args.head;
  float* second = args.head + half;
  for (int64_t i = 0; i < half; i += 16) {
    const F16 a = load_at(first, i, half);
    const F16 b = load_at(second, i, half);
    const F16 c = load_at(args.cos, i, half);
    const F16 s = load_at(args.sin, i, half);
    store_at(first, i, half, sub(mul(a, c), mul(b, s)));
    store_at(second, i, half, add(mul(b, c), mul(a, s)));
  }
}

static void convert(Storage storage, const float* x, void* out, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const F16 v = load_at(x, i, n);
    if (storage == cpu::kStoreF32) {
      store_at(static_cast<float*>(out), i, n, v);
      continue;
    }
    uint16_t bits[16];
    storage == cpu::kStoreBf16 ? store_bf16(bits, v) : store_f16(bits, v);
    const int64_t count = n - i < 16 ? n - i : 16;
    __builtin_memcpy(static_cast<uint16_t*>(out) + i, bits,
                     static_cast<size_t>(count) * sizeof(uint16_t));
  }
}

// x - x is 0 for every finite x and NaN for all others.
static float greatest(const float* x, int64_t n, bool* all_finite) {
  F16 best[2] = {set1(x[0]), set1(x[0])};
  F16 rest[2] = {zero(), zero()};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (int j = 0; j < 2; ++j) {
      const F16 v = load(x + i + 16 * j);
      best[j] = max(best[j], v);
      rest[j] = add(rest[j], sub(v, v));
    }
  }
  float found = reduce_max(max(best[0], best[1]));
  float left = reduce_add(add(rest[0], rest[1]));
  for (; i < n; ++i) {
    found = x[i] > found ? x[i] : found;
    left += x[i] - x[i];
  }
  *all_finite = left == 0.0f;
  return found;
}

static float greatest_allowed(const float* x, const uint32_t* allowed, int64_t n) {
  const float lowest = -__builtin_inff();
  F16 best = set1(lowest);
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const uint32_t word = allowed[i / 32];
    if (word == 0) continue;
    best = max(select_bits(word, load(x + i), best), best);
    best = max(select_bits(word >> 16, load(x + i + 16), best), best);
  }
  float found = reduce_max(best);
  for (; i < n; ++i) {
    const bool is_allowed = (allowed[i / 32] >> (i % 32) & 1u) != 0;
    found = is_allowed && x[i] > found ? x[i] : found;
  }
  return found;
}

// The table that the object file of each instruction set exports.
constexpr cpu::ElementKernels kElementOverVectors = {
    .rms_norm = &rms_norm_row,
    .layer_norm = &layer_norm_row,
    .activate = &activate,
    .soft_cap = &soft_cap_range,
    .embed = &embed_row,
    .rope = &rope_head,
    .convert = &convert,
    .greatest = &greatest,
    .greatest_allowed = &greatest_allowed,
};

}  // namespace
}  // namespace quire
