#include "kernels/api/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/float8.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using kernel_test::Buffer;
using kernel_test::Host;
using kernel_test::kEpsilon;
using kernel_test::random_floats;

struct Shape {
  int32_t num_heads, num_kv_heads, head_dim, rotary_dim, block_size;
  RopeStyle style;
  bool norms;
  QkNorm kind = QkNorm::kHead;
  bool norm_after_rope = false;
  bool scaled_queries = false;
};
const std::vector<Shape> kShapes = {
    {4, 2, 64, 64, 16, RopeStyle::kNeox, false},
    {2, 1, 24, 16, 8, RopeStyle::kNeox, true},
    {3, 3, 80, 32, 32, RopeStyle::kInterleaved, false},
    {2, 2, 8, 8, 64, RopeStyle::kInterleaved, true},
    {1, 1, 96, 96, 16, RopeStyle::kNone, true},
    {2, 1, 128, 2, 128, RopeStyle::kNeox, true},
    {2, 1, 256, 256, 16, RopeStyle::kNeox, false},
    {4, 2, 24, 16, 8, RopeStyle::kNeox, true, QkNorm::kAllHeads},
    {3, 1, 20, 20, 16, RopeStyle::kInterleaved, true, QkNorm::kLayerHead, false, true},
    {2, 2, 40, 16, 16, RopeStyle::kNeox, true, QkNorm::kHead, true},
    {1, 1, 576, 64, 16, RopeStyle::kNeox, false},
    {3, 1, 20, 10, 16, RopeStyle::kNeox, true, QkNorm::kBiasedHead},
    {3, 2, 24, 24, 16, RopeStyle::kNeoxHalves, true},
    {2, 2, 68, 36, 8, RopeStyle::kNeoxHalves, false}};

// One cache of 4 blocks with both halves poisoned.
struct Cache {
  Cache(const Shape& shape, DType dtype)
      : stride(kv_half_block_bytes(dtype, shape.num_kv_heads, shape.head_dim, shape.block_size) /
               size_bytes(dtype)),
        key(4 * stride * size_bytes(dtype)),
        value(4 * stride * size_bytes(dtype)),
        view{key.data(),       value.data(),       dtype,         stride,
             shape.block_size, shape.num_kv_heads, shape.head_dim} {}
  std::vector<float> floats() const {
    std::vector<float> all;
    for (const void* data : {view.key, view.value}) {
      for (int64_t i = 0; i < 4 * stride; ++i)
        all.push_back(ref::load_element(data, view.dtype, i));
    }
    return all;
  }
  int64_t stride;
  Buffer key, value;
  KvCacheView view;
};

TEST(QkvToCache, MatchesReferenceAndTouchesOnlyItsSlots) {
  for (const Isa isa : kernel_test::isas()) {
    for (const Shape& shape : kShapes) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
        Host host(isa, 2);
        const int64_t tokens = 60;
        const int64_t row = (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim;
        const int64_t half = shape.rotary_dim / 2;
        auto got = random_floats(1, tokens * row);
        auto want = got;
        const auto cos = random_floats(2, tokens * half);
        const auto sin = random_floats(3, tokens * half);
        const auto q_weight = random_floats(4, int64_t{shape.num_heads} * shape.head_dim);
        const auto k_weight = random_floats(5, int64_t{shape.num_kv_heads} * shape.head_dim);
        const bool has_bias = shape.norms && shape.kind == QkNorm::kBiasedHead;
        const auto q_bias = random_floats(7, shape.head_dim);
        const auto k_bias = random_floats(8, shape.head_dim);
        const auto q_scale = random_floats(6, tokens);
        std::vector<int64_t> slots;  // distinct, out of order, not block 0 when it can be avoided
        const int64_t num_slots = 4 * shape.block_size;
        for (int64_t t = 0; t < std::min(tokens, num_slots); ++t)
          slots.push_back((t * 7 + 3) % num_slots);
        if (num_slots % 7 == 0) continue;
        Cache got_cache(shape, dtype), want_cache(shape, dtype);
        QkvToCacheParams p{.qkv_stride = row,
                           .qk_norm = shape.kind,
                           .q_norm_weight = shape.norms ? q_weight.data() : nullptr,
                           .k_norm_weight = shape.norms ? k_weight.data() : nullptr,
                           .q_norm_bias = has_bias ? q_bias.data() : nullptr,
                           .k_norm_bias = has_bias ? k_bias.data() : nullptr,
                           .norm_after_rope = shape.norm_after_rope,
                           .q_scale = shape.scaled_queries ? q_scale.data() : nullptr,
                           .rope_style = shape.style,
                           .rotary_dim = shape.rotary_dim,
                           .cos = cos.data(),
                           .sin = sin.data(),
                           .slot_mapping = slots.data(),
                           .num_tokens = static_cast<int64_t>(slots.size()),
                           .num_heads = shape.num_heads};
        p.qkv = got.data();
        p.kv = got_cache.view;
        qkv_to_cache(host.stream, p);
        p.qkv = want.data();
        p.kv = want_cache.view;
        ref::qkv_to_cache(p);
        // A normed head of D elements reaches sqrt(D), and rotation adds two products.
        const double size = shape.norms ? std::sqrt(static_cast<double>(shape.head_dim)) : 1.0;
        const double tolerance = 16 * kEpsilon * size;
        ASSERT_TRUE(kernel_test::close(got.data(), want.data(), tokens * row, tolerance))
            << to_string(isa);
        const auto got_floats = got_cache.floats();
        const auto want_floats = want_cache.floats();
        // One unit in the last place of the stored type when float rounding falls on the other
        // side.
        const double ulp = dtype == DType::kF32 ? 0.0 : dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11;
        for (size_t i = 0; i < want_floats.size(); ++i) {
          ASSERT_EQ(std::isnan(got_floats[i]), std::isnan(want_floats[i]))
              << "slot written or missed at " << i;
          if (std::isnan(want_floats[i])) continue;
          ASSERT_NEAR(got_floats[i], want_floats[i],
                      tolerance + 2 * ulp * std::abs(want_floats[i]));
        }
      }
    }
  }
}

// Writes every bf16 and f16 number to the cache on every instruction set, and compares with the
// codes and scales of the definition. The codes of a token are a function of that token.
TEST(QkvToCache, QuantizesAsTheConversionsSay) {
  constexpr Shape kShape{1, 1, 64, 0, 16, RopeStyle::kNone, false};
  const float scales[] = {1.0f, 0.03125f};
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    const Float8 format = dtype == DType::kF8E4M3 ? Float8::kE4M3 : Float8::kE5M2;
    for (const bool half : {false, true}) {
      std::vector<float> all;
      for (int bits = 0; bits < 65536; ++bits) {
        const auto word = static_cast<uint16_t>(bits);
        all.push_back(half ? to_float(float16{word}) : to_float(bfloat16{word}));
      }
      Host host(best_isa());
      for (size_t begin = 0; begin < all.size(); begin += 64 * 64) {
        std::vector<float> qkv(64 * 3 * 64);
        std::vector<int64_t> slots(64);
        std::iota(slots.begin(), slots.end(), 0);
        for (size_t t = 0; t < 64; ++t) {
          std::copy_n(all.begin() + begin + t * 64, 64, qkv.begin() + t * 192 + 64);
          std::copy_n(all.begin() + begin + t * 64, 64, qkv.begin() + t * 192 + 128);
        }
        Cache cache(kShape, dtype);
        cache.view.key_scale = scales + 1;
        cache.view.value_scale = scales;
        qkv_to_cache(host.stream, {.qkv = qkv.data(),
                                   .qkv_stride = 192,
                                   .rope_style = RopeStyle::kNone,
                                   .slot_mapping = slots.data(),
                                   .kv = cache.view,
                                   .num_tokens = 64,
                                   .num_heads = 1});
        const auto* key = static_cast<const uint8_t*>(cache.view.key);
        const auto* value = static_cast<const uint8_t*>(cache.view.value);
        for (int64_t t = 0; t < 64; ++t) {
          for (int64_t i = 0; i < 64; ++i) {
            const float x = all[begin + t * 64 + i];
            ASSERT_EQ(key[key_index(cache.view, t / 16, 0, t % 16, i)],
                      float_to_float8(format, x / scales[1]))
                << x;
            ASSERT_EQ(value[value_index(cache.view, t / 16, 0, t % 16, i)],
                      float_to_float8(format, x))
                << x;
          }
        }
      }
    }
  }
}

TEST(QkvToCache, Int8ScalesHoldTheLargestElementOfAToken) {
  constexpr Shape kShape{1, 1, 64, 0, 16, RopeStyle::kNone, false};
  Host host(best_isa());
  for (const float size : {0.0f, 1e-42f, 1e-20f, 0.7f, 127.0f, 3e38f}) {
    auto qkv = random_floats(7, 3 * 64, size);
    const int64_t slot = 21;
    Cache cache(kShape, DType::kI8);
    qkv_to_cache(host.stream, {.qkv = qkv.data(),
                               .qkv_stride = 192,
                               .rope_style = RopeStyle::kNone,
                               .slot_mapping = &slot,
                               .kv = cache.view,
                               .num_tokens = 1,
                               .num_heads = 1});
    const float scale = to_float(
        static_cast<const bfloat16*>(cache.view.key)[token_scale_index(cache.view, 1, 0, 5)]);
    float largest = 0.0f;
    for (int i = 0; i < 64; ++i) largest = std::max(largest, std::fabs(qkv[64 + i]));
    EXPECT_GE(scale * 127.0f, largest * 0.999999f);
    EXPECT_LE(scale * 127.0f, std::max(largest * 1.01f, 1.2e-38f));
    for (int64_t i = 0; i < 64; ++i) {
      const int8_t code =
          static_cast<const int8_t*>(cache.view.key)[key_index(cache.view, 1, 0, 5, i)];
      EXPECT_GE(code, -127);
      EXPECT_LE(std::fabs(code * scale - qkv[64 + i]), scale * 0.5001f) << size;
    }
  }
  // A value that is not finite must not be read back as a number.
  std::vector<float> qkv(192, 1.0f);
  qkv[64 + 3] = std::numeric_limits<float>::infinity();
  qkv[128 + 5] = kernel_test::kNaN;
  const int64_t slot = 0;
  Cache cache(kShape, DType::kI8);
  qkv_to_cache(host.stream, {.qkv = qkv.data(),
                             .qkv_stride = 192,
                             .rope_style = RopeStyle::kNone,
                             .slot_mapping = &slot,
                             .kv = cache.view,
                             .num_tokens = 1,
                             .num_heads = 1});
  for (const void* half : {cache.view.key, cache.view.value}) {
    const float scale =
        to_float(static_cast<const bfloat16*>(half)[token_scale_index(cache.view, 0, 0, 0)]);
    EXPECT_FALSE(std::isfinite(scale));
  }
}

TEST(RopeTable, IsExactForLongPositions) {
  Host host(best_isa());
  const std::vector<int32_t> positions = {0, 1, 4095, 131071, 1000000};
  std::vector<double> inv_freq;
  for (int i = 0; i < 32; ++i) inv_freq.push_back(std::pow(500000.0, -i / 32.0));
  std::vector<float> cos(positions.size() * 32), sin(cos.size());
  rope_table(host.stream, {.positions = positions.data(),
                           .inv_freq = inv_freq.data(),
                           .scale = 1.25,
                           .cos = cos.data(),
                           .sin = sin.data(),
                           .num_tokens = 5,
                           .rotary_dim = 64});
  for (size_t t = 0; t < positions.size(); ++t) {
    for (size_t i = 0; i < 32; ++i) {
      const long double angle = static_cast<long double>(positions[t]) * inv_freq[i];
      EXPECT_NEAR(cos[t * 32 + i], static_cast<double>(1.25L * std::cos(angle)), 2.5 * kEpsilon);
      EXPECT_NEAR(sin[t * 32 + i], static_cast<double>(1.25L * std::sin(angle)), 2.5 * kEpsilon);
    }
  }
}

TEST(KvBlockCopy, CopiesInOrder) {
  constexpr int64_t kBlockBytes = 250;
  Host host(best_isa());
  std::vector<uint8_t> got(4 * kBlockBytes);
  for (size_t i = 0; i < got.size(); ++i) got[i] = static_cast<uint8_t>(i % 251);
  std::vector<uint8_t> want = got;
  const std::vector<int32_t> source = {1, 2, 3},
                             destination = {2, 3, 3};  // 2 is read after it was written
  KvBlockCopyParams p{.pool = got.data(),
                      .block_bytes = kBlockBytes,
                      .source = source.data(),
                      .destination = destination.data(),
                      .num_copies = 3};
  kv_block_copy(host.stream, p);
  p.pool = want.data();
  ref::kv_block_copy(p);
  EXPECT_EQ(got, want);
  EXPECT_TRUE(std::equal(got.begin() + 3 * kBlockBytes, got.end(), got.begin() + kBlockBytes));
}

}  // namespace
}  // namespace quire
