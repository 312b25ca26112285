// Latent attention on a GPU: cache writes, products of heads and the walk over the cache.
#include "kernels/api/latent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "kernels/api/attention.h"
#include "kernels/cuda/attention/attention_memory.h"
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

// Requests whose tokens and latents depend only on their number and positions.
struct LatentShape {
  int32_t rank, rope_dim, num_heads, block_size;
  int32_t sliding_window = 0;
};
struct LatentRequest {
  uint64_t identity;
  int32_t context;
  int32_t query;
};
struct LatentBatch {
  LatentShape shape;
  DType dtype;
  std::vector<float> query;
  std::vector<uint8_t> keys;
  std::vector<float> key_scale{0.01f};
  std::vector<int32_t> start_loc{0}, seq_lens, table;
  PagedAttentionParams params;  // of memory on the host

  int64_t row() const { return int64_t{shape.num_heads} * shape.rank; }  // of a token's outputs
  int64_t out_size() const { return start_loc.back() * row(); }
  std::vector<float> reference() const {
    std::vector<float> out(static_cast<size_t>(out_size()));
    PagedAttentionParams p = params;
    p.out = out.data();
    ref::paged_attention(p);
    return out;
  }
};

void fill_request(LatentBatch& batch, const LatentRequest& request, const int32_t* blocks) {
  const KvCacheView& kv = batch.params.kv;
  const float scale = is_fp8(kv.dtype) ? batch.key_scale[0] : 1.0f;
  for (int32_t position = 0; position < request.context + request.query; ++position) {
    const uint64_t seed = request.identity * 2 + (static_cast<uint64_t>(position) << 32);
    const auto latent = random_floats(seed, kv.head_dim);
    for (int32_t i = 0; i < kv.head_dim; ++i) {
      const int64_t at =
          key_index(kv, blocks[position / kv.block_size], 0, position % kv.block_size, i);
      ref::store_element(batch.keys.data(), kv.dtype, at, latent[static_cast<size_t>(i)] / scale);
    }
    if (position < request.context) continue;
    const auto row = rounded(random_floats(seed + 1, batch.params.query_stride, 5.0f));
    batch.query.insert(batch.query.end(), row.begin(), row.end());
  }
}

// Slots that no request uses are NaN.
std::unique_ptr<LatentBatch> make_batch(const LatentShape& shape, DType dtype,
                                        const std::vector<LatentRequest>& requests) {
  auto batch = std::make_unique<LatentBatch>(LatentBatch{.shape = shape, .dtype = dtype});
  const int32_t dims = shape.rank + shape.rope_dim;
  PagedAttentionParams& p = batch->params;
  for (const LatentRequest& request : requests) {
    batch->start_loc.push_back(batch->start_loc.back() + request.query);
    batch->seq_lens.push_back(request.context + request.query);
    const int64_t blocks = (batch->seq_lens.back() + shape.block_size - 1) / shape.block_size;
    p.max_blocks = std::max(p.max_blocks, blocks);
  }
  batch->table.resize(requests.size() * static_cast<size_t>(p.max_blocks));
  std::iota(batch->table.rbegin(), batch->table.rend(), 1);
  p.query_stride = int64_t{shape.num_heads} * dims;
  p.kv = {.dtype = dtype,
          .block_stride = int64_t{shape.block_size} * dims,
          .block_size = shape.block_size,
          .num_kv_heads = 1,
          .head_dim = dims,
          .order = KvOrder::kTokenMajor,
          .latent_dim = shape.rank};
  batch->keys.assign((batch->table.size() + 1) * static_cast<size_t>(p.kv.block_stride) *
                         static_cast<size_t>(size_bytes(dtype)),
                     0xff);
  for (size_t r = 0; r < requests.size(); ++r)
    fill_request(*batch, requests[r], batch->table.data() + r * static_cast<size_t>(p.max_blocks));
  p.num_reqs = static_cast<int32_t>(requests.size());
  p.num_heads = shape.num_heads;
  p.scale = 1.0f / std::sqrt(static_cast<float>(dims));
  p.sliding_window = shape.sliding_window;
  p.query = batch->query.data();
  p.kv.key = batch->keys.data();
  p.kv.key_scale = is_fp8(dtype) ? batch->key_scale.data() : nullptr;
  p.query_start_loc = batch->start_loc.data();
  p.seq_lens = batch->seq_lens.data();
  p.block_table = batch->table.data();
  return batch;
}

class GpuLatentAttention : public GpuLatent {
 protected:
  struct Options {
    bool deterministic = true;
    bool has_room_for_partials = true;  // else every row goes through the prefill kernel
  };
  std::vector<float> run(const LatentBatch& batch, const Options& options) {
    device_->stream().set_deterministic(options.deterministic);
    PagedAttentionParams p = batch.params;
    p.query = upload_as(DType::kBF16, batch.query);
    p.kv.key = upload(batch.keys);
    p.kv.key_scale = is_fp8(batch.dtype) ? upload(batch.key_scale) : nullptr;
    p.query_start_loc = upload(batch.start_loc);
    p.seq_lens = upload(batch.seq_lens);
    p.block_table = upload(batch.table);
    p.out = Activations(poisoned(batch.out_size() * 2), DType::kBF16);
    const bool partials = options.has_room_for_partials;
    p.workspace_bytes = paged_attention_workspace_bytes(
        stream(), partials ? batch.start_loc.back() : 0, partials ? p.num_reqs : 0,
        partials ? p.max_blocks * p.kv.block_size : 1, p.num_heads, p.kv.head_dim);
    p.workspace = poisoned(p.workspace_bytes + 64);
    p.batch_cut = poisoned(paged_attention_cut_bytes(stream(), p.num_reqs));
    paged_attention(stream(), p);
    return download_floats(p.out, batch.out_size());
  }
};

// Requests in the middle of their prompts and requests that decode, within a split and across two
// or three. Values are the first dims of keys. If rows do not consist of whole pieces of 16 bytes,
// the plain kernel is used, else the wide one.
TEST_F(GpuLatentAttention, MatchesReference) {
  struct Case {
    LatentShape shape;
    int32_t context;
  };
  const std::vector<Case> cases = {
      {{30, 2, 2, 16}, 70},    {{16, 4, 3, 8}, 1100},  {{16, 0, 1, 8}, 70},
      {{64, 32, 20, 16}, 520}, {{256, 32, 5, 32}, 70}, {{48, 64, 16, 64, 70}, 200},
      {{512, 64, 4, 16}, 510}, {{384, 8, 17, 16}, 70},
  };
  for (const Case& c : cases) {
    for (const DType dtype : {DType::kBF16, DType::kF8E4M3}) {
      SCOPED_TRACE(::testing::Message() << c.shape.rank << " and " << c.shape.rope_dim);
      const int32_t context = dtype == DType::kBF16 ? c.context : 69;
      const auto batch = make_batch(c.shape, dtype, {{1, 65, 3}, {2, context, 1}, {3, 0, 2}});
      const auto want = batch->reference();
      const auto got = run(*batch, {.deterministic = c.shape.rope_dim != 32});
      ASSERT_TRUE(close(got.data(), want.data(), batch->out_size(), 0x1p-7));
    }
  }
}

// As in DeepSeek-V3: the rows of a single token fill eight items.
TEST_F(GpuLatentAttention, ManyHeadsMatchReference) {
  const auto batch = make_batch({512, 64, 128, 16}, DType::kBF16, {{1, 5, 1}, {2, 70, 1}});
  const auto want = batch->reference();
  const auto got = run(*batch, {});
  ASSERT_TRUE(close(got.data(), want.data(), batch->out_size(), 0x1p-7));
}

// A token that is decoded beside other requests has the same bits as in one chunk, with and without
// room for partial sums, and with less shared memory.
TEST_F(GpuLatentAttention, BitsDoNotDependOnHowARequestIsCut) {
  constexpr int32_t kContext = 510, kTokens = 4;
  const struct {
    LatentShape shape;
    DType dtype;
  } cases[] = {{{512, 64, 5, 16}, DType::kBF16},
               {{64, 32, 20, 8, 400}, DType::kBF16},
               {{64, 32, 5, 8}, DType::kF8E4M3}};
  for (const auto& [shape, dtype] : cases) {
    SCOPED_TRACE(::testing::Message() << shape.rank << " and " << shape.rope_dim);
    const auto whole = make_batch(shape, dtype, {{7, kContext, kTokens}});
    const auto want = run(*whole, {});
    const int64_t row = whole->row();
    for (const bool has_room : {true, false}) {
      const int32_t token = kTokens - 1;
      const auto one = make_batch(shape, dtype, {{1, 40, 1}, {7, kContext + token, 1}, {2, 3, 5}});
      const auto got = run(*one, {.has_room_for_partials = has_room});
      EXPECT_TRUE(kernel_test::same_bits(got.data() + row, want.data() + token * row, row))
          << (has_room ? "" : "without partial sums");
    }
    arenas_.clear();
    device_ = *gpu_test::open_test_device({.shared_bytes_per_block = cuda::kLeastSharedBytes});
    EXPECT_EQ(run(*whole, {}), want);
    arenas_.clear();
    device_ = *gpu_test::open_test_device({});
  }
}

// A GPU whose blocks cannot request enough shared memory for a tile uses the plain kernel.
TEST_F(GpuLatentAttention, LittleSharedMemoryIsEnough) {
  constexpr int64_t kBytes = 64 << 10;
  EXPECT_EQ(cuda::attention_way({576, 512, false}, kBytes), cuda::AttentionWay::kPlain);
  EXPECT_EQ(cuda::attention_way({576, 512, false}, cuda::kLeastSharedBytes),
            cuda::AttentionWay::kWide);
  EXPECT_EQ(cuda::attention_way({576, 512, true}, cuda::kLeastSharedBytes),
            cuda::AttentionWay::kWide);
  EXPECT_EQ(cuda::attention_way({568, 504, true}, cuda::kLeastSharedBytes),
            cuda::AttentionWay::kPlain);
  device_ = *gpu_test::open_test_device({.shared_bytes_per_block = kBytes});
  const auto batch = make_batch({512, 64, 2, 16}, DType::kBF16, {{1, 70, 2}});
  const auto want = batch->reference();
  const auto got = run(*batch, {});
  ASSERT_TRUE(close(got.data(), want.data(), batch->out_size(), 0x1p-7));
}

}  // namespace
}  // namespace quire
