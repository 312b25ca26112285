// Latent attention on a GPU: cache writes, products of heads and the walk over the cache.
#include "kernels/api/latent.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "kernels/api/attention.h"
#include "kernels/cuda/test/test_device.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using gpu_test::rounded;
using kernel_test::close;
using kernel_test::random_floats;

class GpuLatent : public gpu_test::GpuTest {};

TEST_F(GpuLatent, NormsRotatesAndWritesSlots) {
  struct Case {
    int32_t rank, rope_dim, nope_dim, num_heads, block_size;
    RopeStyle style;
  };
  constexpr int64_t kTokens = 4, kBlocks = 4;
  for (const Case& c :
       {Case{16, 4, 6, 3, 16, RopeStyle::kInterleaved}, Case{512, 64, 128, 2, 8, RopeStyle::kNeox},
        Case{30, 2, 2, 5, 16, RopeStyle::kNone}}) {
    for (const DType dtype : {DType::kBF16, DType::kF8E4M3}) {
      SCOPED_TRACE(::testing::Message() << c.rank << " and " << c.rope_dim);
      const int32_t dims = c.rank + c.rope_dim;
      const int64_t stride = dims + 3;
      const int64_t query_stride = c.num_heads * (c.nope_dim + c.rope_dim) + 2;
      const int64_t cache = kBlocks * c.block_size * dims;
      auto latent = rounded(random_floats(1, kTokens * stride, 2.0f));
      const auto query = rounded(random_floats(2, kTokens * query_stride));
      const auto weight = random_floats(3, c.rank);
      const auto cos = random_floats(4, kTokens * c.rope_dim / 2);
      const auto sin = random_floats(5, kTokens * c.rope_dim / 2);
      const std::vector<float> key_scale = {0.02f};
      // The last token is padding: it writes nothing.
      const std::vector<int64_t> slots = {3L * c.block_size + 1, 0, 2L * c.block_size, -1};
      const int64_t absorbed_size = kTokens * c.num_heads * dims;
      auto absorbed = rounded(random_floats(6, absorbed_size));
      LatentToCacheParams p{.latent = upload_as(DType::kBF16, latent),
                            .latent_stride = stride,
                            .norm_weight = upload(weight),
                            .query = upload_as(DType::kBF16, query),
                            .query_stride = query_stride,
                            .nope_dim = c.nope_dim,
                            .absorbed = upload_as(DType::kBF16, absorbed),
                            .rope_style = c.style,
                            .cos = upload(cos),
                            .sin = upload(sin),
                            .slot_mapping = upload(slots),
                            .kv = {.key = poisoned(cache * size_bytes(dtype)),
                                   .dtype = dtype,
                                   .block_stride = cache / kBlocks,
                                   .block_size = c.block_size,
                                   .num_kv_heads = 1,
                                   .head_dim = dims,
                                   .order = KvOrder::kTokenMajor,
                                   .key_scale = is_fp8(dtype) ? upload(key_scale) : nullptr,
                                   .latent_dim = c.rank},
                            .num_tokens = kTokens,
                            .num_heads = c.num_heads};
      latent_to_cache(stream(), p);
      const auto got = download<uint8_t>(p.kv.key, cache * size_bytes(dtype));
      const auto got_absorbed = download_floats(p.absorbed, absorbed_size);
      std::vector<uint8_t> want(got.size(), 0xff);
      p.latent = latent.data();
      p.norm_weight = weight.data();
      p.query = query.data();
      p.absorbed = absorbed.data();
      p.cos = cos.data();
      p.sin = sin.data();
      p.slot_mapping = slots.data();
      p.kv.key = want.data();
      p.kv.key_scale = is_fp8(dtype) ? key_scale.data() : nullptr;
      p.num_tokens = kTokens - 1;
      ref::latent_to_cache(p);
      ASSERT_TRUE(
          close(got_absorbed.data(), absorbed.data(), (kTokens - 1) * c.num_heads * dims, 0.05));
      const double step = dtype == DType::kBF16 ? 0.05 : 0.3;
      for (int64_t i = 0; i < cache; ++i) {
        const float one = ref::load_element(want.data(), dtype, i);
        ASSERT_EQ(std::isnan(ref::load_element(got.data(), dtype, i)), std::isnan(one)) << i;
        if (!std::isnan(one)) {
          ASSERT_NEAR(ref::load_element(got.data(), dtype, i), one, step) << i;
        }
      }
    }
  }
}

TEST_F(GpuLatent, HeadsAreMultipliedByMatricesOfTheirOwn) {
  constexpr int64_t kTokens = 3, kHeads = 4, kIn = 24, kOut = 40;
  const auto x = rounded(random_floats(1, kTokens * kHeads * kIn));
  std::vector<PackedWeight> weights;
  std::vector<std::vector<float>> dense;
  for (int64_t head = 0; head < kHeads; ++head) {
    dense.push_back(rounded(random_floats(10 + head, kOut * kIn)));
    weights.push_back({{.n = kOut, .k = kIn, .dtype = DType::kBF16, .compute = ComputeType::kBF16},
                       upload_as(DType::kBF16, dense.back()).data()});
  }
  std::vector<const PackedWeight*> heads;
  for (const PackedWeight& weight : weights) heads.push_back(&weight);
  const Activations y(poisoned(kTokens * kHeads * kOut * 2), DType::kBF16);
  const int64_t bytes = head_linear_workspace_bytes(stream(), kTokens, weights.front().spec);
  head_linear(stream(), {.x = upload_as(DType::kBF16, x),
                         .x_stride = kHeads * kIn,
                         .x_head_stride = kIn,
                         .weights = heads,
                         .y = y,
                         .y_stride = kHeads * kOut,
                         .y_head_stride = kOut,
                         .num_tokens = kTokens,
                         .workspace = poisoned(bytes)});
  const auto got = download_floats(y, kTokens * kHeads * kOut);
  for (int64_t row = 0; row < kTokens * kHeads; ++row) {
    for (int64_t n = 0; n < kOut; ++n) {
      double want = 0.0;
      for (int64_t k = 0; k < kIn; ++k)
        want += double{x[row * kIn + k]} * dense[row % kHeads][n * kIn + k];
      ASSERT_NEAR(got[row * kOut + n], want, 0x1p-7 + std::abs(want) * 0x1p-8);
    }
  }
}

// A request in the middle of its prompt and one that decodes; values are the first dims of keys.
TEST_F(GpuLatent, AttentionMatchesReference) {
  struct Case {
    int32_t rank, rope_dim, num_heads, block_size;
  };
  for (const Case& c : {Case{16, 4, 3, 8}, Case{64, 32, 20, 16}, Case{512, 64, 4, 16}}) {
    for (const DType dtype : {DType::kBF16, DType::kF8E4M3}) {
      SCOPED_TRACE(::testing::Message() << c.rank << " and " << c.rope_dim);
      const int32_t dims = c.rank + c.rope_dim;
      const std::vector<int32_t> seq_lens = {100, 70}, start_loc = {0, 5, 6};
      const int64_t max_blocks = (100 + c.block_size - 1) / c.block_size;
      std::vector<int32_t> table(static_cast<size_t>(2 * max_blocks));
      std::iota(table.rbegin(), table.rend(), 1);
      const int64_t num_blocks = 2 * max_blocks + 1;
      const int64_t count = num_blocks * c.block_size * dims;
      const std::vector<float> key_scale = {0.01f};
      std::vector<uint8_t> keys(static_cast<size_t>(count * size_bytes(dtype)));
      const auto values = random_floats(1, count);
      for (int64_t i = 0; i < count; ++i) {
        const float scale = is_fp8(dtype) ? key_scale[0] : 1.0f;
        ref::store_element(keys.data(), dtype, i, values[static_cast<size_t>(i)] / scale);
      }
      const auto query = rounded(random_floats(2, 6 * c.num_heads * dims, 5.0f));
      const int64_t out_size = int64_t{6} * c.num_heads * c.rank;
      PagedAttentionParams p{.query = upload_as(DType::kBF16, query),
                             .query_stride = int64_t{c.num_heads} * dims,
                             .kv = {.key = upload(keys),
                                    .dtype = dtype,
                                    .block_stride = int64_t{c.block_size} * dims,
                                    .block_size = c.block_size,
                                    .num_kv_heads = 1,
                                    .head_dim = dims,
                                    .order = KvOrder::kTokenMajor,
                                    .key_scale = is_fp8(dtype) ? upload(key_scale) : nullptr,
                                    .latent_dim = c.rank},
                             .query_start_loc = upload(start_loc),
                             .seq_lens = upload(seq_lens),
                             .block_table = upload(table),
                             .max_blocks = max_blocks,
                             .num_reqs = 2,
                             .num_heads = c.num_heads,
                             .scale = 1.0f / std::sqrt(static_cast<float>(dims)),
                             .out = Activations(poisoned(out_size * 2), DType::kBF16),
                             .batch_cut = poisoned(paged_attention_cut_bytes(stream(), 2))};
      paged_attention(stream(), p);
      const auto got = download_floats(p.out, out_size);
      std::vector<float> want(got.size());
      p.query = query.data();
      p.kv.key = keys.data();
      p.kv.key_scale = is_fp8(dtype) ? key_scale.data() : nullptr;
      p.query_start_loc = start_loc.data();
      p.seq_lens = seq_lens.data();
      p.block_table = table.data();
      p.out = want.data();
      ref::paged_attention(p);
      ASSERT_TRUE(close(got.data(), want.data(), out_size, 0x1p-7));
    }
  }
}

}  // namespace
}  // namespace quire
