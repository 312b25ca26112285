#include "kernels/api/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda/test/test_device.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using gpu_test::rounded;
using kernel_test::close;
using kernel_test::random_floats;

struct Case {
  int32_t num_heads, num_kv_heads, head_dim, block_size, rotary_dim;
  RopeStyle style;
  bool norms;
  QkNorm kind = QkNorm::kHead;
  bool norm_after_rope = false;
  bool plain_norms = false;
  bool scales_queries = false;
};
constexpr Case kCases[] = {
    {4, 2, 64, 16, 64, RopeStyle::kNeox, true},
    {2, 1, 80, 8, 40, RopeStyle::kNeox, false},
    {3, 3, 128, 32, 128, RopeStyle::kInterleaved, true},
    {1, 1, 256, 16, 0, RopeStyle::kNone, false},
    {6, 2, 8, 16, 8, RopeStyle::kNeox, true},
    {4, 2, 12, 16, 12, RopeStyle::kNeox, true, QkNorm::kHead, true},
    {3, 1, 10, 8, 6, RopeStyle::kInterleaved, true, QkNorm::kLayerHead},
    {2, 1, 512, 16, 128, RopeStyle::kNeox, true, QkNorm::kHead, false, true},
    {6, 3, 40, 16, 40, RopeStyle::kNeox, true, QkNorm::kAllHeads, false, false, true},
    {3, 2, 6, 16, 0, RopeStyle::kNone, true, QkNorm::kAllHeads, false, true, true},
    {4, 2, 64, 16, 32, RopeStyle::kNeox, true, QkNorm::kLayerHead, true, false, true},
    {2, 2, 320, 16, 320, RopeStyle::kInterleaved, false, QkNorm::kHead, false, false, true},
};

// Returns the distance of neighbouring e4m3 codes at `value` >= 0.
double step_of_fp8(float value) {
  constexpr int kLeastExponent = -6, kMantissaBits = 3;
  const int exponent = value > 0.0f ? std::ilogb(value) : kLeastExponent;
  return std::ldexp(1.0, std::max(exponent, kLeastExponent) - kMantissaBits);
}

class GpuKvCache : public gpu_test::GpuTest {
 protected:
  void expect_cache_filled(const Case& c, DType dtype);
};

void GpuKvCache::expect_cache_filled(const Case& c, DType dtype) {
  constexpr int64_t kTokens = 5;
  constexpr int64_t kBlocks = 4;
  const int64_t row = (int64_t{c.num_heads} + 2 * c.num_kv_heads) * c.head_dim;
  const int64_t stride = row + 8;
  const int64_t cache = kBlocks * c.num_kv_heads * c.block_size * c.head_dim;
  auto qkv = rounded(random_floats(1, kTokens * stride, 2.0f));
  const bool one_weight = c.kind == QkNorm::kHead;  // for all heads
  auto q_weight = random_floats(2, c.head_dim * (one_weight ? 1 : c.num_heads));
  auto k_weight = random_floats(3, c.head_dim * (one_weight ? 1 : c.num_kv_heads));
  if (c.plain_norms) {
    std::fill(q_weight.begin(), q_weight.end(), 1.0f);
    std::fill(k_weight.begin(), k_weight.end(), 1.0f);
  }
  const auto q_scale = std::vector<float>{1.0f, 1.5f, 0.5f, 2.0f, 1.0f};
  const auto key_scale = std::vector<float>{0.01f, 0.02f, 0.004f};
  const auto value_scale = std::vector<float>{0.03f, 1.0f, 0.5f};
  const auto cos = random_floats(4, kTokens * c.rotary_dim / 2 + 1);
  const auto sin = random_floats(5, kTokens * c.rotary_dim / 2 + 1);
  // The last token is padding: it writes nothing.
  std::vector<int64_t> slots = {3L * c.block_size + 1, 0, 2L * c.block_size, 7, -1};
  QkvToCacheParams p{.qkv = upload_as(DType::kBF16, qkv),
                     .qkv_stride = stride,
                     .qk_norm = c.kind,
                     .q_norm_weight = c.norms ? upload(q_weight) : nullptr,
                     .k_norm_weight = c.norms ? upload(k_weight) : nullptr,
                     .has_plain_norms = c.plain_norms,
                     .norm_after_rope = c.norm_after_rope,
                     .q_scale = c.scales_queries ? upload(q_scale) : nullptr,
                     .rope_style = c.style,
                     .rotary_dim = c.rotary_dim,
                     .cos = upload(cos),
                     .sin = upload(sin),
                     .slot_mapping = upload(slots),
                     .kv = {.key = poisoned(cache * size_bytes(dtype)),
                            .value = poisoned(cache * size_bytes(dtype)),
                            .dtype = dtype,
                            .block_stride = cache / kBlocks,
                            .block_size = c.block_size,
                            .num_kv_heads = c.num_kv_heads,
                            .head_dim = c.head_dim,
                            .order = KvOrder::kTokenMajor,
                            .key_scale = is_fp8(dtype) ? upload(key_scale) : nullptr,
                            .value_scale = is_fp8(dtype) ? upload(value_scale) : nullptr},
                     .num_tokens = kTokens,
                     .num_heads = c.num_heads};
  qkv_to_cache(stream(), p);
  const auto got_qkv = download_floats(p.qkv, kTokens * stride);
  const auto got_key = download<uint8_t>(p.kv.key, cache * size_bytes(dtype));
  const auto got_value = download<uint8_t>(p.kv.value, cache * size_bytes(dtype));

  std::vector<uint8_t> want_key(got_key.size(), 0xff);
  std::vector<uint8_t> want_value = want_key;
  p.qkv = qkv.data();
  p.q_norm_weight = c.norms ? q_weight.data() : nullptr;
  p.k_norm_weight = c.norms ? k_weight.data() : nullptr;
  if (c.scales_queries) p.q_scale = q_scale.data();
  p.cos = cos.data();
  p.sin = sin.data();
  p.slot_mapping = slots.data();
  p.kv.key = want_key.data();
  p.kv.value = want_value.data();
  p.kv.key_scale = is_fp8(dtype) ? key_scale.data() : nullptr;
  p.kv.value_scale = is_fp8(dtype) ? value_scale.data() : nullptr;
  p.num_tokens = kTokens - 1;
  ref::qkv_to_cache(p);
  for (int64_t t = 0; t + 1 < kTokens; ++t) {
    ASSERT_TRUE(close(got_qkv.data() + t * stride, qkv.data() + t * stride,
                      int64_t{c.num_heads} * c.head_dim, 0.05));
  }
  ASSERT_EQ(got_value, want_value);
  // The norm and the rotation of keys are computed in another order than in the reference, so a
  // code may differ by one, and a small one by as much as the scale makes of the difference.
  const auto step = [dtype](float a, float b) {
    if (dtype == DType::kBF16) return 0.05;
    return std::max(0.3, step_of_fp8(std::max(std::abs(a), std::abs(b))));
  };
  for (int64_t i = 0; i < cache; ++i) {
    const float want = ref::load_element(want_key.data(), dtype, i);
    const float got = ref::load_element(got_key.data(), dtype, i);
    ASSERT_EQ(std::isnan(got), std::isnan(want)) << i;
    if (!std::isnan(want)) {
      ASSERT_NEAR(got, want, step(got, want)) << i;
    }
  }
}

// Every rounding, saturation and NaN: all bf16 values are stored as values, which are not rotated.
TEST_F(GpuKvCache, CodesOfFp8AreThoseOfTheHost) {
  constexpr int64_t kDims = 256;
  constexpr int64_t kTokens = 65536 / kDims;
  std::vector<bfloat16> qkv(static_cast<size_t>(kTokens * 3 * kDims));
  std::vector<int64_t> slots;
  std::vector<uint8_t> want;
  for (int64_t i = 0; i < kTokens * kDims; ++i) {
    const bfloat16 x{static_cast<uint16_t>(i)};
    qkv[static_cast<size_t>(i / kDims * 3 * kDims + 2 * kDims + i % kDims)] = x;
    want.push_back(0);
    ref::store_element(want.data(), DType::kF8E4M3, i, to_float(x));
    if (i % kDims == 0) slots.push_back(i / kDims);
  }
  auto* value = static_cast<uint8_t*>(poisoned(kTokens * kDims));
  qkv_to_cache(stream(), {.qkv = Activations(upload(qkv), DType::kBF16),
                          .qkv_stride = 3 * kDims,
                          .rope_style = RopeStyle::kNone,
                          .slot_mapping = upload(slots),
                          .kv = {.key = poisoned(kTokens * kDims),
                                 .value = value,
                                 .dtype = DType::kF8E4M3,
                                 .block_stride = 16 * kDims,
                                 .block_size = 16,
                                 .num_kv_heads = 1,
                                 .head_dim = kDims,
                                 .order = KvOrder::kTokenMajor},
                          .num_tokens = kTokens,
                          .num_heads = 1});
  const auto got = download<uint8_t>(value, kTokens * kDims);
  for (size_t i = 0; i < want.size(); ++i) {
    const bool is_nan = (want[i] & 0x7f) == 0x7f;
    ASSERT_EQ(is_nan ? got[i] & 0x7f : got[i], is_nan ? 0x7f : want[i]) << i;
  }
}

TEST_F(GpuKvCache, NormsRotatesAndWritesSlots) {
  for (const Case& c : kCases) {
    expect_cache_filled(c, DType::kBF16);
    expect_cache_filled(c, DType::kF8E4M3);
    if (HasFatalFailure()) return;
  }
}

TEST_F(GpuKvCache, RopeTableWithAndWithoutDynamicScaling) {
  const std::vector<int32_t> positions = {0, 1, 99, 100, 4000};
  std::vector<double> inv_freq(16);
  for (size_t i = 0; i < inv_freq.size(); ++i)
    inv_freq[i] = 1.0 / std::pow(10000.0, 2.0 * static_cast<double>(i) / 32.0);
  for (const int64_t dynamic_from : {0, 100}) {
    auto* cos_out = static_cast<float*>(poisoned(5 * 16 * 4));
    auto* sin_out = static_cast<float*>(poisoned(5 * 16 * 4));
    rope_table(stream(), {.positions = upload(positions),
                          .inv_freq = inv_freq.data(),
                          .scale = 1.2,
                          .dynamic_max_position = dynamic_from,
                          .dynamic_theta = 10000.0,
                          .dynamic_factor = 4.0,
                          .cos = cos_out,
                          .sin = sin_out,
                          .num_tokens = 5,
                          .rotary_dim = 32});
    const auto cos = download<float>(cos_out, 5 * 16);
    const auto sin = download<float>(sin_out, 5 * 16);
    for (size_t t = 0; t < positions.size(); ++t) {
      for (size_t i = 0; i < 16; ++i) {
        double frequency = inv_freq[i];
        if (dynamic_from > 0 && positions[t] >= dynamic_from) {
          const double stretch = 4.0 * (positions[t] + 1) / 100.0 - 3.0;
          const double theta = 10000.0 * std::pow(stretch, 32.0 / 30.0);
          frequency = 1.0 / std::pow(theta, 2.0 * static_cast<double>(i) / 32.0);
        }
        const double angle = positions[t] * frequency;
        EXPECT_NEAR(cos[t * 16 + i], std::cos(angle) * 1.2, 1e-6);
        EXPECT_NEAR(sin[t * 16 + i], std::sin(angle) * 1.2, 1e-6);
      }
    }
  }
}

TEST_F(GpuKvCache, CopiesBlocksInOrder) {
  constexpr int64_t kBlock = 2 * 16 * 8;  // elements
  std::vector<bfloat16> blocks;
  for (int i = 0; i < 5 * kBlock; ++i) blocks.push_back({static_cast<uint16_t>(i)});
  const std::vector<int32_t> source = {1, 4, 2};
  const std::vector<int32_t> destination = {4, 2, 3};  // the second reads what the first wrote
  auto* pool = upload(blocks);
  kv_block_copy(stream(), {.pool = pool,
                           .block_bytes = kBlock * size_bytes(DType::kBF16),
                           .source = upload(source),
                           .destination = upload(destination),
                           .num_copies = 3});
  const auto got = download<bfloat16>(pool, 5 * kBlock);
  for (int64_t i = 0; i < kBlock; ++i) {
    for (const int64_t block : {1, 2, 3, 4}) EXPECT_EQ(got[block * kBlock + i].bits, kBlock + i);
  }
}

}  // namespace
}  // namespace quire
