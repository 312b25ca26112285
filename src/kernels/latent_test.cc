#include "kernels/api/latent.h"

#include <gtest/gtest.h>

#include <numeric>

#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using kernel_test::Buffer;
using kernel_test::Host;
using kernel_test::kEpsilon;
using kernel_test::random_floats;

struct Shape {
  int32_t num_heads, rank, rope_dim, nope_dim, block_size;
  RopeStyle style;
};
const std::vector<Shape> kShapes = {{4, 16, 4, 8, 8, RopeStyle::kInterleaved},
                                    {3, 48, 10, 6, 24, RopeStyle::kNeox},
                                    {16, 512, 64, 128, 16, RopeStyle::kInterleaved},
                                    {2, 32, 8, 4, 16, RopeStyle::kNone}};

// Returns what a batch writes to the cache, the absorbed queries and the latents.
std::vector<float> run(const Shape& shape, DType dtype, Stream* stream) {
  constexpr int64_t kTokens = 37;
  const int32_t dim = shape.rank + shape.rope_dim;
  const int64_t block_bytes = kv_half_block_bytes(dtype, 1, dim, shape.block_size);
  Buffer memory(8 * block_bytes);
  auto latent = random_floats(1, kTokens * (dim + 3));
  const auto query =
      random_floats(2, kTokens * shape.num_heads * (shape.nope_dim + shape.rope_dim));
  const auto weight = random_floats(3, shape.rank);
  const auto cos = random_floats(4, kTokens * shape.rope_dim / 2);
  const auto sin = random_floats(5, kTokens * shape.rope_dim / 2);
  std::vector<int64_t> slots;
  for (int64_t t = 0; t < kTokens; ++t) slots.push_back((t * 11 + 5) % (8 * shape.block_size));
  std::vector<float> absorbed(static_cast<size_t>(kTokens * shape.num_heads * dim), 7.0f);
  KvCacheView kv{.key = memory.data(),
                 .dtype = dtype,
                 .block_stride = block_bytes / size_bytes(dtype),
                 .block_size = shape.block_size,
                 .num_kv_heads = 1,
                 .head_dim = dim,
                 .latent_dim = shape.rank};
  const LatentToCacheParams params{
      .latent = latent.data(),
      .latent_stride = dim + 3,
      .norm_weight = weight.data(),
      .norm_eps = 1e-5f,
      .query = query.data(),
      .query_stride = shape.num_heads * (shape.nope_dim + shape.rope_dim),
      .nope_dim = shape.nope_dim,
      .absorbed = absorbed.data(),
      .rope_style = shape.style,
      .cos = cos.data(),
      .sin = sin.data(),
      .slot_mapping = slots.data(),
      .kv = kv,
      .num_tokens = kTokens,
      .num_heads = shape.num_heads};
  stream == nullptr ? ref::latent_to_cache(params) : latent_to_cache(*stream, params);
  std::vector<float> all = latent;
  all.insert(all.end(), absorbed.begin(), absorbed.end());
  for (const int64_t slot : slots) {
    for (int64_t i = 0; i < dim; ++i) {
      all.push_back(ref::load_element(
          kv.key, dtype, key_index(kv, slot / shape.block_size, 0, slot % shape.block_size, i)));
    }
  }
  return all;
}

TEST(LatentToCache, MatchesReferenceOnEveryIsa) {
  for (const Isa isa : kernel_test::isas()) {
    for (const Shape& shape : kShapes) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
        Host host(isa, 2);
        const auto got = run(shape, dtype, &host.stream);
        const auto want = run(shape, dtype, nullptr);
        const double ulp = dtype == DType::kF32 ? 0.0 : dtype == DType::kBF16 ? 0x1p-7 : 0x1p-10;
        ASSERT_EQ(got.size(), want.size());
        for (size_t i = 0; i < want.size(); ++i) {
          ASSERT_NEAR(got[i], want[i], 64 * kEpsilon + ulp * std::abs(want[i]))
              << to_string(isa) << " " << to_string(dtype) << " at " << i;
        }
      }
    }
  }
}

// The product of a head has the bits of linear(), both alone and with other heads.
TEST(HeadLinear, IsALinearOfEachHead) {
  constexpr int64_t kHeads = 5, kN = 72, kK = 40, kTokens = 19;
  for (const Isa isa : kernel_test::isas()) {
    for (const ComputeType compute : {ComputeType::kF32, ComputeType::kBF16}) {
      const DType dtype = compute == ComputeType::kBF16 ? DType::kBF16 : DType::kF32;
      const WeightSpec spec{.n = kN, .k = kK, .dtype = dtype, .compute = compute};
      Host host(isa, 3);
      std::vector<Buffer> memory;
      std::vector<PackedWeight> weights;
      std::vector<const PackedWeight*> pointers;
      memory.reserve(kHeads);
      for (int64_t head = 0; head < kHeads; ++head) {
        memory.emplace_back(packed_weight_bytes(spec));
        std::memset(memory.back().data(), 0, static_cast<size_t>(packed_weight_bytes(spec)));
        weights.push_back({spec, memory.back().data()});
        const auto rows = random_floats(static_cast<uint64_t>(10 + head), kN * kK);
        pack_weight_rows(host.stream, weights.back(),
                         {.rows = rows.data(), .dtype = DType::kF32, .num_rows = kN});
      }
      for (const PackedWeight& weight : weights) pointers.push_back(&weight);
      const auto x = random_floats(1, kTokens * kHeads * (kK + 4));
      std::vector<float> got(kTokens * kHeads * (kN + 8), 0.0f), want(got);
      Buffer workspace(head_linear_workspace_bytes(host.stream, kTokens, spec));
      head_linear(host.stream, {.x = x.data(),
                                .x_stride = kHeads * (kK + 4),
                                .x_head_stride = kK + 4,
                                .weights = pointers,
                                .y = got.data(),
                                .y_stride = kHeads * (kN + 8),
                                .y_head_stride = kN + 8,
                                .num_tokens = kTokens,
                                .workspace = workspace.data()});
      for (int64_t head = 0; head < kHeads; ++head) {
        for (int64_t t = 0; t < kTokens; ++t) {
          Buffer scratch(linear_workspace_bytes(host.stream, 1, spec));
          linear(host.stream, {.x = x.data() + (t * kHeads + head) * (kK + 4),
                               .x_stride = kK,
                               .weight = &weights[static_cast<size_t>(head)],
                               .y = want.data() + (t * kHeads + head) * (kN + 8),
                               .y_stride = kN,
                               .num_rows = 1,
                               .workspace = scratch.data()});
        }
      }
      ASSERT_TRUE(
          kernel_test::same_bits(got.data(), want.data(), static_cast<int64_t>(want.size())))
          << to_string(isa);
    }
  }
}

}  // namespace
}  // namespace quire
