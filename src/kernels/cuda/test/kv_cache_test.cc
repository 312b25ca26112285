#include "kernels/api/kv_cache.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/test/test_device.h"
#include "kernels/test_support.h"

namespace quire {
namespace {

using gpu_test::rounded;
using kernel_test::close;
using kernel_test::random_floats;

class GpuKvCache : public gpu_test::GpuTest {};

struct Case {
  int32_t num_heads, num_kv_heads, head_dim, block_size, rotary_dim;
  RopeStyle style;
  bool norms;
};
constexpr Case kCases[] = {
    {4, 2, 64, 16, 64, RopeStyle::kNeox, true},
    {2, 1, 80, 8, 40, RopeStyle::kNeox, false},
    {3, 3, 128, 32, 128, RopeStyle::kInterleaved, true},
    {1, 1, 256, 16, 0, RopeStyle::kNone, false},
    {6, 2, 8, 16, 8, RopeStyle::kNeox, true},
};

TEST_F(GpuKvCache, NormsRotatesAndWritesSlots) {
  constexpr int64_t kTokens = 5;
  constexpr int64_t kBlocks = 4;
  for (const Case& c : kCases) {
    const int64_t row = (int64_t{c.num_heads} + 2 * c.num_kv_heads) * c.head_dim;
    const int64_t stride = row + 8;
    const int64_t cache = kBlocks * c.num_kv_heads * c.block_size * c.head_dim;
    auto qkv = rounded(random_floats(1, kTokens * stride, 2.0f));
    const auto q_weight = random_floats(2, c.head_dim);
    const auto k_weight = random_floats(3, c.head_dim);
    const auto cos = random_floats(4, kTokens * c.rotary_dim / 2 + 1);
    const auto sin = random_floats(5, kTokens * c.rotary_dim / 2 + 1);
    // The last token is padding: it writes nothing.
    std::vector<int64_t> slots = {3L * c.block_size + 1, 0, 2L * c.block_size, 7, -1};
    QkvToCacheParams p{.qkv = upload_as(DType::kBF16, qkv),
                       .qkv_stride = stride,
                       .q_norm_weight = c.norms ? upload(q_weight) : nullptr,
                       .k_norm_weight = c.norms ? upload(k_weight) : nullptr,
                       .rope_style = c.style,
                       .rotary_dim = c.rotary_dim,
                       .cos = upload(cos),
                       .sin = upload(sin),
                       .slot_mapping = upload(slots),
                       .kv = {.key = poisoned(cache * 2),
                              .value = poisoned(cache * 2),
                              .dtype = DType::kBF16,
                              .block_stride = cache / kBlocks,
                              .block_size = c.block_size,
                              .num_kv_heads = c.num_kv_heads,
                              .head_dim = c.head_dim,
                              .order = KvOrder::kTokenMajor},
                       .num_tokens = kTokens,
                       .num_heads = c.num_heads};
    qkv_to_cache(stream(), p);
    const auto got_qkv = download_floats(p.qkv, kTokens * stride);
    const auto got_key = download<bfloat16>(p.kv.key, cache);
    const auto got_value = download<bfloat16>(p.kv.value, cache);

    std::vector<bfloat16> want_key(static_cast<size_t>(cache), bfloat16{0xffff});
    std::vector<bfloat16> want_value = want_key;
    p.qkv = qkv.data();
    p.q_norm_weight = c.norms ? q_weight.data() : nullptr;
    p.k_norm_weight = c.norms ? k_weight.data() : nullptr;
    p.cos = cos.data();
    p.sin = sin.data();
    p.slot_mapping = slots.data();
    p.kv.key = want_key.data();
    p.kv.value = want_value.data();
    p.num_tokens = kTokens - 1;
    ref::qkv_to_cache(p);
    for (int64_t t = 0; t + 1 < kTokens; ++t) {
      ASSERT_TRUE(close(got_qkv.data() + t * stride, qkv.data() + t * stride,
                        int64_t{c.num_heads} * c.head_dim, 0.05));
    }
    for (size_t i = 0; i < want_key.size(); ++i) {
      const bool written = want_key[i].bits != 0xffff;
      ASSERT_EQ(got_key[i].bits != 0xffff, written) << i;
      if (!written) continue;
      ASSERT_NEAR(to_float(got_key[i]), to_float(want_key[i]), 0.05) << i;
      ASSERT_EQ(got_value[i].bits, want_value[i].bits) << i;
    }
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
  constexpr int64_t kBlock = 2 * 16 * 8;  // two heads of 16 tokens and 8 dims
  std::vector<bfloat16> key;
  for (int i = 0; i < 5 * kBlock; ++i) key.push_back({static_cast<uint16_t>(i)});
  const std::vector<int32_t> source = {1, 4, 2};
  const std::vector<int32_t> destination = {4, 2, 3};  // the second reads what the first wrote
  auto* device_key = upload(key);
  auto* device_value = upload(key);
  kv_block_copy(stream(), {.kv = {.key = device_key,
                                  .value = device_value,
                                  .dtype = DType::kBF16,
                                  .block_stride = kBlock,
                                  .block_size = 16,
                                  .num_kv_heads = 2,
                                  .head_dim = 8,
                                  .order = KvOrder::kTokenMajor},
                           .source = upload(source),
                           .destination = upload(destination),
                           .num_copies = 3});
  for (const auto* cache : {device_key, device_value}) {
    const auto got = download<bfloat16>(cache, 5 * kBlock);
    for (int64_t i = 0; i < kBlock; ++i) {
      for (const int64_t block : {1, 2, 3, 4}) EXPECT_EQ(got[block * kBlock + i].bits, kBlock + i);
    }
  }
}

}  // namespace
}  // namespace quire
