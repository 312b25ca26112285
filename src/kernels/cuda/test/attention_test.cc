#include "kernels/api/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/bench/cases.h"
#include "kernels/cuda/attention/attention_memory.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/test/test_device.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using kernel_cases::AttentionCase;
using kernel_test::Buffer;
using kernel_test::kEpsilon;
using kernel_test::random_floats;

// Some requests' tokens in a paged, token-major cache whose every unused slot is NaN. A request's
// tokens depend on its number alone.
struct Request {
  uint64_t identity;
  int32_t context;
  int32_t query;
};

struct Batch {
  AttentionCase c;
  std::vector<Request> requests;
  std::vector<float> query;  // bf16 values
  DType cache_dtype = DType::kBF16;
  std::vector<uint8_t> key, value;
  std::vector<float> key_scale, value_scale;  // per KV head, with fp8
  std::vector<int32_t> query_start_loc{0}, seq_lens, block_table;
  std::vector<float> sinks, alibi_slopes;
  int64_t block_stride = 0;
  int64_t max_blocks = 0;

  int64_t query_stride() const { return int64_t{c.num_heads} * c.head_dim + 16; }
  int64_t num_tokens() const { return query_start_loc.back(); }
  int64_t out_size() const { return num_tokens() * c.num_heads * c.head_dim; }

  PagedAttentionParams params() const {
    PagedAttentionParams p;
    p.query_stride = query_stride();
    p.kv = {.dtype = cache_dtype,
            .block_stride = block_stride,
            .block_size = c.block_size,
            .num_kv_heads = c.num_kv_heads,
            .head_dim = c.head_dim,
            .order = KvOrder::kTokenMajor};
    p.max_blocks = max_blocks;
    p.num_reqs = static_cast<int32_t>(requests.size());
    p.num_heads = c.num_heads;
    p.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    p.sliding_window = c.sliding_window;
    p.window_is_chunk = c.window_is_chunk;
    p.soft_cap = c.soft_cap;
    return p;
  }

  std::vector<float> reference() const {
    PagedAttentionParams p = params();
    std::vector<float> out(static_cast<size_t>(out_size()));
    p.query = query.data();
    p.kv.key = const_cast<uint8_t*>(key.data());
    p.kv.value = const_cast<uint8_t*>(value.data());
    p.kv.key_scale = key_scale.data();
    p.kv.value_scale = value_scale.data();
    p.query_start_loc = query_start_loc.data();
    p.seq_lens = seq_lens.data();
    p.block_table = block_table.data();
    p.sinks = c.sinks ? sinks.data() : nullptr;
    p.alibi_slopes = c.alibi ? alibi_slopes.data() : nullptr;
    p.out = out.data();
    ref::paged_attention(p);
    return out;
  }
};

void fill_request(Batch& batch, size_t r) {
  const AttentionCase& c = batch.c;
  const Request& request = batch.requests[r];
  KvCacheView kv = batch.params().kv;
  for (int32_t position = 0; position < batch.seq_lens[r]; ++position) {
    const int64_t block = batch.block_table[r * static_cast<size_t>(batch.max_blocks) +
                                            static_cast<size_t>(position / c.block_size)];
    if (block == 0) continue;
    const int64_t n = int64_t{c.num_kv_heads} * c.head_dim;
    const uint64_t seed = request.identity * 4 + (static_cast<uint64_t>(position) << 32);
    const auto keys = random_floats(seed + 1, n);
    const auto values = random_floats(seed + 2, n);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at =
          key_index(kv, block, i / c.head_dim, position % c.block_size, i % c.head_dim);
      const auto head = static_cast<size_t>(i / c.head_dim);
      ref::store_element(batch.key.data(), kv.dtype, at,
                         keys[static_cast<size_t>(i)] / batch.key_scale[head]);
      ref::store_element(batch.value.data(), kv.dtype, at,
                         values[static_cast<size_t>(i)] / batch.value_scale[head]);
    }
  }
  for (int32_t i = 0; i < request.query; ++i) {
    const auto position = static_cast<uint64_t>(request.context + i);
    const auto row = gpu_test::rounded(
        random_floats(request.identity * 4 + 3 + (position << 32), batch.query_stride(), 5.0f));
    batch.query.insert(batch.query.end(), row.begin(), row.end());
  }
}

Batch make_batch(const AttentionCase& c, const std::vector<Request>& requests, uint64_t seed,
                 DType cache_dtype = DType::kBF16) {
  Batch batch{.c = c, .requests = requests, .cache_dtype = cache_dtype};
  for (int32_t head = 0; head < c.num_kv_heads; ++head) {
    const bool scaled = is_fp8(cache_dtype);
    batch.key_scale.push_back(scaled ? 0.004f * static_cast<float>(1 + head % 3) : 1.0f);
    batch.value_scale.push_back(scaled ? 0.003f * static_cast<float>(1 + head % 2) : 1.0f);
  }
  int64_t num_blocks = 1;
  for (const Request& r : requests) {
    batch.seq_lens.push_back(r.context + r.query);
    batch.query_start_loc.push_back(batch.query_start_loc.back() + r.query);
    const int64_t blocks = (batch.seq_lens.back() + c.block_size - 1) / c.block_size;
    batch.max_blocks = std::max(batch.max_blocks, blocks);
    num_blocks += blocks;
  }
  batch.block_stride = int64_t{c.num_kv_heads} * c.head_dim * c.block_size + 64;
  batch.key.assign(static_cast<size_t>(num_blocks * batch.block_stride * size_bytes(cache_dtype)),
                   0xff);
  batch.value = batch.key;
  std::vector<int32_t> order(static_cast<size_t>(num_blocks) - 1);
  std::iota(order.begin(), order.end(), 1);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[philox4x32(seed, {static_cast<uint32_t>(i), 0, 0, 0})[0] % i]);
  batch.block_table.assign(requests.size() * static_cast<size_t>(batch.max_blocks), 0);
  size_t next = 0;
  for (size_t r = 0; r < requests.size(); ++r) {
    const int32_t blocks = (batch.seq_lens[r] + c.block_size - 1) / c.block_size;
    const int32_t first_seen =
        c.sliding_window > 0 ? requests[r].context - c.sliding_window + 1 : 0;
    for (int32_t b = 0; b < blocks; ++b) {
      const bool freed = (b + 1) * c.block_size <= first_seen;
      batch.block_table[r * static_cast<size_t>(batch.max_blocks) + static_cast<size_t>(b)] =
          freed ? 0 : order[next];
      ++next;
    }
  }
  for (size_t r = 0; r < requests.size(); ++r) fill_request(batch, r);
  batch.sinks = random_floats(99, c.num_heads, 2.0f);
  for (int32_t head = 0; head < c.num_heads; ++head)
    batch.alibi_slopes.push_back(0.4f / static_cast<float>(1 + 3 * head));
  return batch;
}

std::vector<Request> requests_of(const AttentionCase& c) {
  std::vector<Request> requests;
  for (size_t r = 0; r < c.query_lens.size(); ++r)
    requests.push_back({r + 1, c.context_lens[r], c.query_lens[r]});
  return requests;
}

// Returns whether a GPU supports a case of the shared table: even dims, and block sizes that are
// powers of two.
bool is_supported(const AttentionCase& c) {
  return c.causal && !c.has_images && c.bias_reach == 0 && c.latent_dim == 0 &&
         c.head_dim <= cuda::kMaxHeadDim && c.head_dim % 2 == 0 &&
         (c.block_size & (c.block_size - 1)) == 0;
}

// Weights are rounded to bf16 (2^-9 each, at worst all in one direction; they are normalised by
// rounded weights too), and the result, which is below 1, to bf16. Scores are as in the CPU's test.
double tolerance(const AttentionCase& c) {
  return 0x1p-9 + 0x1p-9 + kEpsilon * 4.0 * (5.0 * std::sqrt(c.head_dim) + 16.0);
}

class GpuAttention : public gpu_test::GpuTest {
 protected:
  struct Options {
    bool deterministic = false;
    int64_t workspace_bytes = -1;  // -1: as much as the op asks for
    int32_t max_query_len = 0;
    int64_t total_len = 0;
    bool warpgroups = false;  // prefill uses the kernel for compute capability 9.0
  };
  std::vector<bool> prefill_kernels() {
    const GpuStream& stream = device_->stream();
    if (stream.info().compute_capability == 90 || stream.emulated() != nullptr)
      return {false, true};
    return {false};
  }

  // Returns a workspace that has room for prefill, but not for a single partial row.
  int64_t smallest_workspace(const AttentionCase& c) {
    return paged_attention_workspace_bytes(stream(), 0, 0, 1, c.num_heads, c.head_dim);
  }

  std::vector<float> run(const Batch& batch, const Options& options) {
    device_->stream().set_deterministic(options.deterministic);
    device_->stream().set_warpgroup_products(options.warpgroups);
    PagedAttentionParams p = batch.params();
    p.query = upload_as(DType::kBF16, batch.query);
    p.kv.key = upload(batch.key);
    p.kv.value = upload(batch.value);
    p.query_start_loc = upload(batch.query_start_loc);
    p.seq_lens = upload(batch.seq_lens);
    p.block_table = upload(batch.block_table);
    p.kv.key_scale = upload(batch.key_scale);
    p.kv.value_scale = upload(batch.value_scale);
    p.sinks = batch.c.sinks ? upload(batch.sinks) : nullptr;
    p.alibi_slopes = batch.c.alibi ? upload(batch.alibi_slopes) : nullptr;
    p.out = Activations(poisoned(batch.out_size() * 2), DType::kBF16);
    p.workspace_bytes = paged_attention_workspace_bytes(
        stream(), batch.num_tokens(), p.num_reqs,
        *std::max_element(batch.seq_lens.begin(), batch.seq_lens.end()), p.num_heads,
        p.kv.head_dim);
    if (options.workspace_bytes >= 0)
      p.workspace_bytes = std::min(p.workspace_bytes, options.workspace_bytes);
    p.workspace = poisoned(p.workspace_bytes + 64);
    p.batch_cut = poisoned(paged_attention_cut_bytes(stream(), p.num_reqs));
    p.cut_has_one_table = true;
    p.max_query_len = options.max_query_len;
    p.total_len = options.total_len;
    paged_attention(stream(), p);
    const EmulatedWork* const queued = device_->stream().emulated();
    num_launches_ = queued == nullptr ? 0 : queued->size();
    num_pack_items_ = download<int32_t>(p.batch_cut, 1)[0];
    return download_floats(p.out, batch.out_size());
  }

  void expect_reference(DType cache_dtype);

  int32_t num_pack_items_ = 0;  // of the last run
  size_t num_launches_ = 0;     // emulated ones of the last run
};

void GpuAttention::expect_reference(DType cache_dtype) {
  for (const AttentionCase& c : kernel_cases::attention_cases()) {
    if (!is_supported(c)) continue;
    const Batch batch = make_batch(c, requests_of(c), 1, cache_dtype);
    const auto want = batch.reference();
    for (const bool deterministic : {false, true})
      for (const bool warpgroups : prefill_kernels()) {
        SCOPED_TRACE(::testing::Message()
                     << (deterministic ? "deterministic " : "") << (warpgroups ? "warpgroups " : "")
                     << "heads " << c.num_heads << "/" << c.num_kv_heads << " dim " << c.head_dim
                     << " block " << c.block_size << " window " << c.sliding_window);
        const auto got = run(batch, {.deterministic = deterministic, .warpgroups = warpgroups});
        ASSERT_TRUE(kernel_test::close(got.data(), want.data(), batch.out_size(), tolerance(c)));
      }
  }
}

TEST_F(GpuAttention, MatchesReference) { expect_reference(DType::kBF16); }

// Codes are exact in bf16, so the error is that of a bf16 cache with the same values.
TEST_F(GpuAttention, MatchesReferenceWithAnFp8Cache) { expect_reference(DType::kF8E4M3); }

// Items with many rows over many tiles: whole tiles, which a Hopper GPU fetches by boxes, between
// partial ones; rings that go round several times; more than one split; and items of several
// requests per block.
std::vector<AttentionCase> long_prompts() {
  return {
      {4, 1, 128, 16, {70, 33}, {600, 130}},
      {2, 1, 64, 8, {100}, {1000}, 300},
      {2, 1, 256, 32, {40}, {210}, 0, 30.0f},
      {3, 1, 80, 64, {50, 1, 20}, {70, 200, 0}, 0, 0.0f, true},
      {1, 1, 192, 16, {140}, {3}},
      {4, 2, 64, 16, {90, 40}, {500, 70}, 0, 0.0f, false, true},
      {2, 1, 128, 16, {150}, {520}, 256, 20.0f, true, true, true, 0, true},
  };
}
TEST_F(GpuAttention, LongPromptsMatchReference) {
  for (const AttentionCase& c : long_prompts()) {
    for (const DType cache_dtype : {DType::kBF16, DType::kF8E4M3}) {
      const Batch batch = make_batch(c, requests_of(c), 1, cache_dtype);
      const auto want = batch.reference();
      for (const bool warpgroups : prefill_kernels()) {
        SCOPED_TRACE(::testing::Message() << "dim " << c.head_dim << " warpgroups " << warpgroups);
        const auto got = run(batch, {.deterministic = true, .warpgroups = warpgroups});
        ASSERT_TRUE(kernel_test::close(got.data(), want.data(), batch.out_size(), tolerance(c)));
      }
    }
  }
}

// Heads that the plain kernel computes, with few dims or an odd number of pairs, and heads of more
// than 256 dims, which the wide one computes.
TEST_F(GpuAttention, PlainAndWideHeadsMatchReference) {
  const std::vector<AttentionCase> cases = {
      {3, 1, 2, 8, {5, 1}, {9, 0}},
      {4, 2, 10, 8, {5, 1, 40}, {9, 130, 0}, 0, 30.0f},
      {4, 4, 12, 16, {1, 9}, {70, 3}, 16, 0.0f, true},
      {6, 6, 6, 16, {3, 1}, {0, 100}, 0, 0.0f, false, true},
      {4, 1, 20, 32, {60, 1}, {40, 200}, 48, 0.0f, true, false, true, 0, true},
      {2, 1, 320, 16, {3, 1}, {66, 130}, 100},
      {4, 1, 512, 16, {2, 1}, {600, 3}, 0, 20.0f, true, true},
      {8, 1, 264, 8, {1, 3, 1}, {1100, 510, 40}},
  };
  for (const AttentionCase& c : cases) {
    for (const DType cache_dtype : {DType::kBF16, DType::kF8E4M3}) {
      SCOPED_TRACE(::testing::Message() << "dim " << c.head_dim << " " << to_string(cache_dtype));
      const Batch batch = make_batch(c, requests_of(c), 1, cache_dtype);
      const auto want = batch.reference();
      const auto got = run(batch, {.deterministic = true});
      ASSERT_TRUE(kernel_test::close(got.data(), want.data(), batch.out_size(), tolerance(c)));
    }
  }
}

// Kernels with one stage of keys and values compute the same bits as those with two.
TEST_F(GpuAttention, LittleSharedMemoryGivesTheSameBits) {
  std::vector<AttentionCase> cases = long_prompts();
  cases.push_back({4, 1, 256, 16, {1, 3}, {700, 90}});
  for (const AttentionCase& c : cases) {
    for (const DType cache_dtype : {DType::kBF16, DType::kF8E4M3}) {
      SCOPED_TRACE(::testing::Message() << "dim " << c.head_dim << " " << to_string(cache_dtype));
      const int64_t least =
          cuda::least_attention_shared_bytes(c.head_dim, cache_dtype == DType::kF8E4M3);
      if (c.head_dim <= 128 || cache_dtype == DType::kBF16) {
        EXPECT_LE(least, cuda::kLeastSharedBytes);
      }
      const Batch batch = make_batch(c, requests_of(c), 1, cache_dtype);
      arenas_.clear();
      device_ = *gpu_test::open_test_device({});
      const auto want = run(batch, {.deterministic = true});
      arenas_.clear();
      device_ = *gpu_test::open_test_device({.shared_bytes_per_block = least});
      const auto got = run(batch, {.deterministic = true});
      ASSERT_EQ(got, want);
    }
  }
}

// Decoded rows over more splits than are folded at once, with more heads per KV head than an item
// has rows, with several tokens, and with a window that leaves the first splits out.
TEST_F(GpuAttention, ManySplitsMatchReference) {
  const std::vector<AttentionCase> cases = {
      {8, 2, 64, 16, {1, 3, 1}, {1500, 1100, 20}},
      {40, 2, 80, 8, {1, 1}, {1400, 255}},
      {2, 1, 16, 16, {1}, {4500}},
      {4, 1, 256, 16, {1}, {2100}, 1200, 0.0f, true},
      {4, 2, 64, 16, {1, 3}, {1500, 1100}, 0, 0.0f, false, true},
      {4, 1, 128, 16, {1, 4}, {2100, 1534}, 1536, 0.0f, true, false, true, 0, true},
  };
  for (const AttentionCase& c : cases) {
    const Batch batch = make_batch(c, requests_of(c), 1);
    const auto want = batch.reference();
    const int32_t longest = *std::max_element(c.query_lens.begin(), c.query_lens.end());
    for (const bool deterministic : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "dim " << c.head_dim << " " << deterministic);
      const auto got = run(batch, {.deterministic = deterministic, .max_query_len = longest});
      ASSERT_TRUE(kernel_test::close(got.data(), want.data(), batch.out_size(), tolerance(c)));
    }
  }
}

// There are more requests than lanes, which search for a request together. Some have no token in
// the step.
TEST_F(GpuAttention, ManyRequestsMatchReference) {
  AttentionCase c{2, 1, 16, 8, {}, {}};
  for (int32_t r = 0; r < 80; ++r) {
    c.query_lens.push_back(r % 7 == 3 ? 0 : 1 + r % 2);
    c.context_lens.push_back(r % 11 == 0 ? 300 + r : r % 5);
  }
  const Batch batch = make_batch(c, requests_of(c), 1);
  const auto got = run(batch, {.max_query_len = 2});
  const auto want = batch.reference();
  ASSERT_TRUE(kernel_test::close(got.data(), want.data(), batch.out_size(), tolerance(c)));
}

// A step of few short requests, each of which might be long. If their total length is known, no
// kernel is launched for requests whose partial sums would not fit.
TEST_F(GpuAttention, DecodeStepsStartNoKernelOfPrompts) {
  AttentionCase c{4, 1, 64, 16, {1}, {1500}};
  for (int32_t r = 1; r < 16; ++r) {
    c.query_lens.push_back(1);
    c.context_lens.push_back(3 + r);
  }
  const Batch batch = make_batch(c, requests_of(c), 1);
  const auto want = batch.reference();
  const int64_t total_len = std::accumulate(batch.seq_lens.begin(), batch.seq_lens.end(), 0);
  const auto expect_close = [&](const std::vector<float>& got) {
    ASSERT_TRUE(kernel_test::close(got.data(), want.data(), batch.out_size(), tolerance(c)));
  };
  expect_close(run(batch, {.deterministic = true, .max_query_len = 1}));
  // There are 19 splits; without the total length there could be 16 x 3.
  const int64_t room = int64_t{20} * 4 * (c.head_dim + 2) * 4;
  Options options{
      .deterministic = true, .workspace_bytes = smallest_workspace(c) + room, .max_query_len = 1};
  expect_close(run(batch, options));
  const size_t with_prefill = num_launches_;
  options.total_len = total_len;
  expect_close(run(batch, options));
  if (device_->stream().emulated() != nullptr) {
    EXPECT_EQ(num_launches_ + 1, with_prefill);
  }
}

// Few requests use a kernel that takes two tiles at once, many use one that takes one tile after
// another. Tested with even and odd numbers of tiles, and with windows that begin within a tile.
TEST_F(GpuAttention, FewRequestsHaveTheBitsOfMany) {
  const std::vector<AttentionCase> shapes = {
      {8, 1, 128, 16, {}, {}},
      {4, 2, 64, 8, {}, {}, 200, 20.0f, true},
      {6, 2, 80, 16, {}, {}, 0, 0.0f, false, true},
      {4, 1, 112, 32, {}, {}, 256, 0.0f, true, true, true, 0, true},
  };
  for (const AttentionCase& c : shapes) {
    for (const DType cache_dtype : {DType::kBF16, DType::kF8E4M3}) {
      for (const int32_t context : {40, 100, 300, 575}) {
        SCOPED_TRACE(::testing::Message() << "dim " << c.head_dim << " " << to_string(cache_dtype)
                                          << " context " << context);
        const Request watched{7, context, 1};
        std::vector<Request> crowd(17, {2, 5, 1});
        crowd[3] = watched;
        const Options options{.deterministic = true, .max_query_len = 1};
        const Batch alone = make_batch(c, {watched}, 1, cache_dtype);
        const auto got = run(alone, options);
        const auto all = run(make_batch(c, crowd, 3, cache_dtype), options);
        const int64_t row = int64_t{c.num_heads} * c.head_dim;
        EXPECT_TRUE(kernel_test::same_bits(got.data(), all.data() + 3 * row, row));
        const auto want = alone.reference();
        EXPECT_TRUE(kernel_test::close(got.data(), want.data(), row, tolerance(c)));
      }
    }
  }
}

// The end of a request has the same bits if it is decoded token by token, a few tokens at a time,
// or as one chunk, also if the workspace is too small for decode and every row goes through
// prefill.
TEST_F(GpuAttention, DeterministicBitsDoNotDependOnHowARequestIsCut) {
  const std::vector<AttentionCase> shapes = {
      {4, 2, 64, 16, {}, {}},
      {4, 1, 128, 16, {}, {}, 700},
      {2, 2, 256, 8, {}, {}, 0, 20.0f, true},
      {4, 2, 64, 16, {}, {}, 0, 0.0f, false, true},
      {2, 1, 128, 16, {}, {}, 1024, 0.0f, true, true, true, 0, true},
      {2, 1, 512, 16, {}, {}, 900, 20.0f, true, true},
      {6, 2, 10, 8, {}, {}, 0, 0.0f, false, true}};
  for (size_t i = 0; i < 2 * shapes.size(); ++i) {
    const AttentionCase& c = shapes[i / 2];
    const DType cache_dtype = i % 2 == 0 ? DType::kBF16 : DType::kF8E4M3;
    constexpr int32_t kContext = 1020;
    constexpr int32_t kTokens = 20;
    const Batch whole = make_batch(c, {{7, kContext, kTokens}}, 1, cache_dtype);
    const auto want = run(whole, {.deterministic = true});
    for (const bool warpgroups : prefill_kernels()) {
      const auto same = run(whole, {.deterministic = true, .warpgroups = warpgroups});
      EXPECT_TRUE(kernel_test::same_bits(same.data(), want.data(), whole.out_size()))
          << "dim " << c.head_dim << ": the prefill kernels differ";
    }
    const int64_t row = int64_t{c.num_heads} * c.head_dim;
    for (const int32_t token : {0, 4, 5, kTokens - 1}) {
      for (const int64_t workspace : {int64_t{-1}, int64_t{0}}) {
        const Batch one = make_batch(c, {{1, 40, 1}, {7, kContext + token, 1}, {2, 3, 30}},
                                     5 + token, cache_dtype);
        if (workspace == 0 && token != 4) continue;
        const Options options{.deterministic = true,
                              .workspace_bytes = workspace == 0 ? smallest_workspace(c) : -1};
        const auto got = run(one, options);
        EXPECT_TRUE(kernel_test::same_bits(got.data() + row, want.data() + token * row, row))
            << "dim " << c.head_dim << " token " << token << " workspace " << workspace;
      }
    }
  }
}

// Returns a batch of only request r.
Batch alone(const Batch& batch, size_t r) {
  Batch one = batch;
  one.requests = {batch.requests[r]};
  one.seq_lens = {batch.seq_lens[r]};
  const int32_t begin = batch.query_start_loc[r];
  const int32_t end = batch.query_start_loc[r + 1];
  one.query_start_loc = {0, end - begin};
  one.query.assign(batch.query.begin() + begin * batch.query_stride(),
                   batch.query.begin() + end * batch.query_stride());
  const auto table = batch.block_table.begin() + static_cast<std::ptrdiff_t>(r) * batch.max_blocks;
  one.block_table.assign(table, table + batch.max_blocks);
  return one;
}

// Requests that share blocks of prefixes, in a tree, and others have the bits that each has alone.
TEST_F(GpuAttention, RequestsThatShareBlocksHaveTheBitsOfEachAlone) {
  const std::vector<std::pair<AttentionCase, DType>> shapes = {
      {{4, 1, 128, 16, {}, {}, 0, 0.0f, true}, DType::kBF16},
      {{2, 2, 24, 8, {}, {}, 0, 0.0f, false, true}, DType::kBF16},
      {{3, 1, 80, 64, {}, {}, 1040, 20.0f}, DType::kBF16},
      {{2, 1, 256, 16, {}, {}, 0, 30.0f, true, true}, DType::kBF16},
      {{4, 2, 32, 32, {}, {}, 1536, 0.0f, false, true, true, 0, true}, DType::kBF16},
      {{4, 2, 32, 32, {}, {}}, DType::kF8E4M3},
      {{17, 1, 8, 16, {}, {}}, DType::kBF16}};
  // For each request a parent, and the number of positions that it shares with it.
  constexpr std::pair<size_t, int32_t> kTree[] = {{0, 0},    {0, 1030}, {0, 1100}, {0, 600},
                                                  {3, 1024}, {0, 0},    {2, 1024}};
  const std::vector<Request> requests = {{1, 1100, 1}, {2, 1055, 1}, {3, 1130, 1}, {4, 1090, 1},
                                         {5, 1061, 1}, {6, 70, 9},   {7, 1057, 1}};
  for (const auto& [c, cache_dtype] : shapes) {
    SCOPED_TRACE(::testing::Message() << "dim " << c.head_dim << " " << to_string(cache_dtype));
    Batch batch = make_batch(c, requests, 3, cache_dtype);
    for (size_t r = 0; r < requests.size(); ++r) {
      const auto [parent, positions] = kTree[r];
      for (int64_t b = 0; (b + 1) * c.block_size <= positions; ++b) {
        const auto row = static_cast<size_t>(batch.max_blocks);
        int32_t& own = batch.block_table[r * row + static_cast<size_t>(b)];
        const int32_t theirs = batch.block_table[parent * row + static_cast<size_t>(b)];
        if (own != 0 && theirs != 0) own = theirs;
      }
    }
    std::vector<float> want;
    for (size_t r = 0; r < requests.size(); ++r) {
      const auto one = run(alone(batch, r), {.deterministic = true});
      want.insert(want.end(), one.begin(), one.end());
    }
    const auto reference = batch.reference();
    ASSERT_TRUE(kernel_test::close(want.data(), reference.data(), batch.out_size(), tolerance(c)));
    for (const int32_t longest : {0, 9}) {
      const auto got = run(batch, {.deterministic = true, .max_query_len = longest});
      const bool packs = cache_dtype == DType::kBF16 && c.num_heads / c.num_kv_heads <= 16;
      EXPECT_EQ(num_pack_items_ > 0, packs);
      ASSERT_TRUE(kernel_test::same_bits(got.data(), want.data(), batch.out_size()));
    }
  }
}

}  // namespace
}  // namespace quire
