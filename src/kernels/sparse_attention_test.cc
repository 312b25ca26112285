#include "kernels/api/sparse_attention.h"

#include <gtest/gtest.h>

#include <numeric>

#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using kernel_test::Buffer;
using kernel_test::Host;
using kernel_test::random_floats;
using kernel_test::same_bits;

constexpr DType kCaches[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kI8};

struct Shape {
  int32_t num_heads, head_dim, top_k, block_size;
};

// Two requests: one of 70 tokens, and one of 3 tokens after 600 in the cache.
constexpr int32_t kStarts[] = {0, 70, 73};
constexpr int32_t kLens[] = {70, 603};
constexpr int32_t kTokens = 73;

// A cache of one head in token-major order with scattered blocks, where every position is written.
class RowCache {
 public:
  RowCache(DType dtype, int32_t dim, int32_t block_size, int32_t latent_dim)
      : max_blocks_((603 + block_size - 1) / block_size),
        block_bytes_(kv_half_block_bytes(dtype, 1, dim, block_size)),
        memory_(2 * max_blocks_ * block_bytes_) {
    view = {.key = memory_.data(),
            .dtype = dtype,
            .block_stride = block_bytes_ / size_bytes(dtype),
            .block_size = block_size,
            .num_kv_heads = 1,
            .head_dim = dim,
            .order = KvOrder::kTokenMajor,
            .latent_dim = latent_dim};
    for (int64_t i = 0; i < 2 * max_blocks_; ++i)
      table.push_back(static_cast<int32_t>((i * 7 + 3) % (2 * max_blocks_)));
    for (int32_t r = 0; r < 2; ++r) {
      for (int32_t at = 0; at < kLens[r]; ++at) {
        const auto x = random_floats(static_cast<uint64_t>(1000 * r + at), dim);
        ref::store_key(view, table[r * max_blocks_ + at / block_size], 0, at % block_size,
                       x.data());
      }
    }
  }
  int64_t max_blocks() const { return max_blocks_; }

  KvCacheView view;
  std::vector<int32_t> table;

 private:
  int64_t max_blocks_;
  int64_t block_bytes_;
  Buffer memory_;
};

struct Choice {
  std::vector<int32_t> chosen;
  explicit Choice(int32_t top_k) : chosen(static_cast<size_t>(kTokens * top_k), -1) {}
};

std::vector<int32_t> choose(const Shape& shape, const RowCache& cache, HostStream* stream,
                            float query_scale = 1.0f) {
  const int64_t stride = int64_t{shape.num_heads} * shape.head_dim + 5;
  const auto query = random_floats(1, kTokens * stride, query_scale);
  const auto weights = random_floats(2, kTokens * (shape.num_heads + 1));
  Choice choice(shape.top_k);
  Buffer workspace(stream == nullptr ? 0
                                     : choose_tokens_workspace_bytes(*stream, 603, shape.num_heads,
                                                                     shape.head_dim));
  const ChooseTokensParams params{.query = query.data(),
                                  .query_stride = stride,
                                  .weights = weights.data(),
                                  .weights_stride = shape.num_heads + 1,
                                  .keys = cache.view,
                                  .query_start_loc = kStarts,
                                  .seq_lens = kLens,
                                  .block_table = cache.table.data(),
                                  .max_blocks = cache.max_blocks(),
                                  .num_reqs = 2,
                                  .num_heads = shape.num_heads,
                                  .top_k = shape.top_k,
                                  .chosen = choice.chosen.data(),
                                  .workspace = workspace.data()};
  stream == nullptr ? ref::choose_tokens(params) : choose_tokens(*stream, params);
  return choice.chosen;
}

TEST(ChooseTokens, MatchesReferenceOnEveryIsa) {
  for (const Shape& shape : {Shape{4, 8, 16, 8}, Shape{50, 16, 33, 16}, Shape{33, 24, 600, 16}}) {
    for (const DType dtype : kCaches) {
      const RowCache cache(dtype, shape.head_dim, shape.block_size, 0);
      const auto want = choose(shape, cache, nullptr);
      for (const Isa isa : kernel_test::isas()) {
        Host host(isa, 3);
        const auto got = choose(shape, cache, &host.stream);
        // A token whose score nearly equals that of the last chosen one can be chosen instead of
        // it.
        int64_t different = 0;
        for (size_t i = 0; i < want.size(); ++i) different += got[i] != want[i] ? 1 : 0;
        EXPECT_LE(different, 4 * shape.top_k / 100)
            << to_string(isa) << " " << to_string(dtype) << " of " << shape.head_dim;
      }
    }
  }
}

// Queries of zeros give every token the same score.
TEST(ChooseTokens, LowerPositionsWinTies) {
  const Shape shape{3, 8, 16, 8};
  const RowCache cache(DType::kBF16, shape.head_dim, shape.block_size, 0);
  Host host(kernel_test::isas().back(), 2);
  const auto got = choose(shape, cache, &host.stream, 0.0f);
  for (int32_t token = 15; token < kTokens; ++token) {
    for (int32_t i = 0; i < shape.top_k; ++i) EXPECT_EQ(got[token * shape.top_k + i], i);
  }
}

// The choice does not depend on the number of threads or the size of the batch.
TEST(ChooseTokens, DependsOnTheTokenAlone) {
  const Shape shape{32, 64, 20, 16};
  const RowCache cache(DType::kBF16, shape.head_dim, shape.block_size, 0);
  Host one(kernel_test::isas().back(), 1), four(kernel_test::isas().back(), 4);
  EXPECT_EQ(choose(shape, cache, &one.stream), choose(shape, cache, &four.stream));
}

TEST(IndexToCache, MatchesReferenceOnEveryIsa) {
  constexpr int32_t kHeads = 5, kDim = 24, kRotary = 10;
  for (const RopeStyle style : {RopeStyle::kNeox, RopeStyle::kInterleaved, RopeStyle::kNone}) {
    for (const DType dtype : kCaches) {
      const auto run = [&](Stream* stream) {
        RowCache cache(dtype, kDim, 16, 0);
        auto key = random_floats(1, kTokens * (kDim + 2));
        auto query = random_floats(2, kTokens * kHeads * kDim);
        const auto weight = random_floats(3, kDim), bias = random_floats(4, kDim);
        const auto cos = random_floats(5, kTokens * kRotary / 2);
        const auto sin = random_floats(6, kTokens * kRotary / 2);
        std::vector<int64_t> slots;
        for (int64_t t = 0; t < kTokens; ++t) slots.push_back(t * 5 + 3);
        const IndexToCacheParams params{.key = key.data(),
                                        .key_stride = kDim + 2,
                                        .norm_weight = weight.data(),
                                        .norm_bias = bias.data(),
                                        .query = query.data(),
                                        .query_stride = kHeads * kDim,
                                        .rope_style = style,
                                        .rotary_dim = kRotary,
                                        .cos = cos.data(),
                                        .sin = sin.data(),
                                        .slot_mapping = slots.data(),
                                        .keys = cache.view,
                                        .num_tokens = kTokens,
                                        .num_heads = kHeads};
        stream == nullptr ? ref::index_to_cache(params) : index_to_cache(*stream, params);
        std::vector<float> all = query;
        for (const int64_t slot : slots) {
          for (int64_t i = 0; i < kDim; ++i) {
            all.push_back(ref::load_element(cache.view.key, dtype,
                                            key_index(cache.view, slot / 16, 0, slot % 16, i)));
          }
        }
        return all;
      };
      const auto want = run(nullptr);
      for (const Isa isa : kernel_test::isas()) {
        Host host(isa, 2);
        const auto got = run(&host.stream);
        const double ulp = dtype == DType::kF32      ? 1e-6
                           : dtype == DType::kI8     ? 1.0 / 64
                           : dtype == DType::kF8E4M3 ? 0x1p-3
                                                     : 0x1p-7;
        for (size_t i = 0; i < want.size(); ++i) {
          ASSERT_NEAR(got[i], want[i], 1e-5 + ulp * std::max(1.0f, std::abs(want[i])))
              << to_string(isa) << " " << to_string(dtype) << " at " << i;
        }
      }
    }
  }
}

// Returns the attention of the tokens of both requests to their choices.
std::vector<float> attend(const RowCache& cache, const std::vector<int32_t>& chosen, int32_t top_k,
                          int32_t num_heads, HostStream* stream) {
  const KvCacheView& kv = cache.view;
  const auto query = random_floats(7, int64_t{kTokens} * num_heads * kv.head_dim);
  std::vector<float> out(static_cast<size_t>(kTokens * num_heads * kv.latent_dim), 7.0f);
  Buffer workspace(stream == nullptr ? 0
                                     : sparse_attention_workspace_bytes(
                                           *stream, kv.dtype, num_heads, kv.head_dim, top_k));
  const SparseAttentionParams params{.attention = {.query = query.data(),
                                                   .query_stride = num_heads * kv.head_dim,
                                                   .kv = kv,
                                                   .query_start_loc = kStarts,
                                                   .seq_lens = kLens,
                                                   .block_table = cache.table.data(),
                                                   .max_blocks = cache.max_blocks(),
                                                   .num_reqs = 2,
                                                   .num_heads = num_heads,
                                                   .scale = 0.3f,
                                                   .out = out.data(),
                                                   .workspace = workspace.data()},
                                     .chosen = chosen.data(),
                                     .top_k = top_k};
  stream == nullptr ? ref::sparse_attention(params) : sparse_attention(*stream, params);
  return out;
}

// Returns every third position that a token sees, or all positions if there are at most top_k.
std::vector<int32_t> some_positions(int32_t top_k) {
  std::vector<int32_t> chosen(static_cast<size_t>(kTokens * top_k), -1);
  for (int32_t t = 0; t < kTokens; ++t) {
    const int32_t position = t < 70 ? t : 530 + t;
    const int32_t count = num_chosen(position, top_k);
    for (int32_t i = 0; i < count; ++i)
      chosen[t * top_k + i] = i * std::max(1, (position + 1) / count);
  }
  return chosen;
}

TEST(SparseAttention, MatchesReferenceOnEveryIsa) {
  for (const int32_t top_k : {8, 37}) {
    const auto chosen = some_positions(top_k);
    for (const DType dtype : kCaches) {
      const RowCache cache(dtype, 52, 16, 48);
      const auto want = attend(cache, chosen, top_k, 5, nullptr);
      for (const Isa isa : kernel_test::isas()) {
        Host host(isa, 3);
        const auto got = attend(cache, chosen, top_k, 5, &host.stream);
        const bool exact = dtype == DType::kF32 || dtype == DType::kF16;
        EXPECT_TRUE(kernel_test::close(got.data(), want.data(), std::ssize(want),
                                       exact                   ? 2e-6
                                       : dtype == DType::kBF16 ? 1e-2
                                                               : 2e-2))
            << to_string(isa) << " " << to_string(dtype) << " top " << top_k;
      }
    }
  }
}

// If all tokens are chosen, the bits are those of attention to all.
TEST(SparseAttention, IsAttentionWhereAllAreChosen) {
  constexpr int32_t kHeads = 20, kTopK = 603;
  std::vector<int32_t> chosen(static_cast<size_t>(kTokens * kTopK));
  for (int32_t t = 0; t < kTokens; ++t)
    std::iota(chosen.begin() + t * kTopK, chosen.begin() + (t + 1) * kTopK, 0);
  for (const DType dtype : kCaches) {
    const RowCache rows(dtype, 52, 16, 48);
    const int64_t block_bytes = kv_half_block_bytes(dtype, 1, 52, 16);
    Buffer memory(2 * rows.max_blocks() * block_bytes);
    KvCacheView kv = rows.view;
    kv.key = memory.data();
    kv.order = KvOrder::kCpu;
    for (int32_t r = 0; r < 2; ++r) {
      for (int32_t at = 0; at < kLens[r]; ++at) {
        const auto x = random_floats(static_cast<uint64_t>(1000 * r + at), 52);
        ref::store_key(kv, rows.table[r * rows.max_blocks() + at / 16], 0, at % 16, x.data());
      }
    }
    for (const Isa isa : kernel_test::isas()) {
      Host host(isa, 2);
      const auto got = attend(rows, chosen, kTopK, kHeads, &host.stream);
      const auto query = random_floats(7, int64_t{kTokens} * kHeads * 52);
      std::vector<float> want(got.size());
      Buffer workspace(paged_attention_workspace_bytes(host.stream, kTokens, 2, 603, kHeads, 52));
      paged_attention(host.stream, {.query = query.data(),
                                    .query_stride = kHeads * 52,
                                    .kv = kv,
                                    .query_start_loc = kStarts,
                                    .seq_lens = kLens,
                                    .block_table = rows.table.data(),
                                    .max_blocks = rows.max_blocks(),
                                    .num_reqs = 2,
                                    .num_heads = kHeads,
                                    .scale = 0.3f,
                                    .out = want.data(),
                                    .workspace = workspace.data()});
      EXPECT_TRUE(same_bits(got.data(), want.data(), std::ssize(want)))
          << to_string(isa) << " " << to_string(dtype);
    }
  }
}

}  // namespace
}  // namespace quire
