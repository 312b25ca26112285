#include "kernels/api/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/bench/cases.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using kernel_cases::AttentionCase;
using kernel_test::Buffer;
using kernel_test::Host;
using kernel_test::kEpsilon;
using kernel_test::random_floats;

// The tokens of some requests in a paged cache, where all unused slots are NaN. The tokens of a
// request are a function of its `identity`, so the same request can be in different batches.
class Batch {
 public:
  struct Request {
    uint64_t identity;
    int32_t context;
    int32_t query;
  };

  Batch(const AttentionCase& c, DType dtype, const std::vector<Request>& requests,
        uint64_t block_seed)
      : c_(c), dtype_(dtype), requests_(requests), memory_k_(0), memory_v_(0) {
    int64_t num_blocks = 1;  // block 0 is the null block
    query_start_loc_.push_back(0);
    for (const Request& r : requests) {
      seq_lens_.push_back(r.context + r.query);
      query_start_loc_.push_back(query_start_loc_.back() + r.query);
      for (int32_t p = r.context; p < seq_lens_.back(); ++p)
        seen_ends_.push_back(c.seen_end(p, seq_lens_.back()));
      const int64_t blocks = (seq_lens_.back() + c.block_size - 1) / c.block_size;
      max_blocks_ = std::max(max_blocks_, blocks);
      num_blocks += blocks;
    }
    const int64_t element = size_bytes(dtype);
    block_stride_ =
        kv_half_block_bytes(dtype, c.num_kv_heads, c.head_dim, c.block_size) / element + 64;
    memory_k_ = Buffer(num_blocks * block_stride_ * size_bytes(dtype));
    memory_v_ = Buffer(num_blocks * block_stride_ * size_bytes(dtype));
    assign_blocks(num_blocks, block_seed);
    for (int32_t h = 0; h < c.num_kv_heads; ++h) {
      key_scale_.push_back(0.004f + 0.001f * static_cast<float>(h));
      value_scale_.push_back(0.003f * static_cast<float>(1 + h));
    }
    for (size_t r = 0; r < requests.size(); ++r) fill(static_cast<int64_t>(r));
    sinks_ = random_floats(99, c.num_heads, 2.0f);
    const int64_t biases = position_bias_stride(c.bias_reach);
    position_bias_ = random_floats(98, c.num_heads * biases, 2.0f);
    for (int64_t i = 0; i < std::ssize(position_bias_); ++i) {
      const int64_t last = biases - 1 - kPositionBiasPadding;
      const int64_t at = std::clamp<int64_t>(i % biases, kPositionBiasPadding, last);
      position_bias_[static_cast<size_t>(i)] =
          position_bias_[static_cast<size_t>(i / biases * biases + at)];
    }
    for (int32_t h = 0; h < c.num_heads; ++h)
      alibi_slopes_.push_back(
          std::exp2(-8.0f * static_cast<float>(h + 1) / static_cast<float>(c.num_heads)));
  }

  PagedAttentionParams params() {
    PagedAttentionParams p;
    p.query = query_.data();
    p.query_stride = query_stride();
    p.kv = view();
    p.query_start_loc = query_start_loc_.data();
    p.seq_lens = seq_lens_.data();
    p.block_table = block_table_.data();
    p.max_blocks = max_blocks_;
    p.num_reqs = static_cast<int32_t>(requests_.size());
    p.num_heads = c_.num_heads;
    p.scale = 1.0f / std::sqrt(static_cast<float>(c_.head_dim));
    p.sliding_window = c_.sliding_window;
    p.window_is_chunk = c_.window_is_chunk;
    p.soft_cap = c_.soft_cap;
    p.sinks = c_.sinks ? sinks_.data() : nullptr;
    p.alibi_slopes = c_.alibi ? alibi_slopes_.data() : nullptr;
    p.position_bias = c_.bias_reach > 0 ? position_bias_.data() : nullptr;
    p.position_bias_reach = c_.bias_reach;
    p.causal = c_.causal;
    p.seen_ends = c_.has_images ? seen_ends_.data() : nullptr;
    return p;
  }

  // Runs the op into a poisoned output with a poisoned workspace.
  std::vector<float> run(Stream& stream) {
    PagedAttentionParams p = params();
    const int64_t tokens = query_start_loc_.back();
    std::vector<float> out = kernel_test::poisoned(tokens * c_.num_heads * c_.value_dim());
    const int32_t longest = *std::max_element(seq_lens_.begin(), seq_lens_.end());
    Buffer workspace(paged_attention_workspace_bytes(stream, tokens, p.num_reqs, longest,
                                                     c_.num_heads, c_.head_dim));
    p.out = out.data();
    p.workspace = workspace.data();
    paged_attention(stream, p);
    return out;
  }

  // Writes data that must not reach other rows: values of the first request's last token that are
  // not finite (int8), and scores of its first token that overflow.
  void spoil_last_value() {
    const KvCacheView kv = view();
    const int32_t last = seq_lens_[0] - 1;
    const int64_t block = block_table_[last / c_.block_size];
    for (int64_t h = 0; h < c_.num_kv_heads; ++h) {
      static_cast<bfloat16*>(kv.value)[token_scale_index(kv, block, h, last % c_.block_size)] =
          bfloat16{0x7f80};
    }
  }
  void spoil_first_query() {
    for (int64_t i = 0; i < query_stride(); ++i) query_[static_cast<size_t>(i)] *= 1e38f;
  }

  std::vector<float> reference() {
    PagedAttentionParams p = params();
    std::vector<float> out =
        kernel_test::poisoned(query_start_loc_.back() * c_.num_heads * c_.value_dim());
    p.out = out.data();
    ref::paged_attention(p);
    return out;
  }

 private:
  KvCacheView view() {
    KvCacheView kv{memory_k_.data(), memory_v_.data(), dtype_,     block_stride_,
                   c_.block_size,    c_.num_kv_heads,  c_.head_dim};
    if (is_fp8(dtype_)) {
      kv.key_scale = key_scale_.data();
      kv.value_scale = value_scale_.data();
    }
    kv.latent_dim = c_.latent_dim;
    if (kv.is_latent()) kv.value = nullptr;
    return kv;
  }

  // Stores one head of one token, quantized if the type of the cache is.
  void store_row(const KvCacheView& kv, bool is_key, int64_t block, int64_t head, int32_t position,
                 const float* x) {
    const int64_t offset = position % c_.block_size;
    void* cache = is_key ? kv.key : kv.value;
    float scale = 1.0f;
    if (is_fp8(dtype_)) scale = (is_key ? kv.key_scale : kv.value_scale)[head];
    if (has_token_scales(dtype_)) {
      const bfloat16 stored{static_cast<uint16_t>(0x3c03 + (head * 7 + position) % 32)};
      scale = to_float(stored);  // a little above 1 / 127
      static_cast<bfloat16*>(cache)[token_scale_index(kv, block, head, offset)] = stored;
    }
    for (int64_t i = 0; i < c_.head_dim; ++i) {
      const int64_t at =
          is_key ? key_index(kv, block, head, offset, i) : value_index(kv, block, head, offset, i);
      ref::store_element(cache, dtype_, at, x[i] / scale);
    }
  }
  int64_t query_stride() const { return int64_t{c_.num_heads} * c_.head_dim + 16; }

  void assign_blocks(int64_t num_blocks, uint64_t seed) {
    std::vector<int32_t> order(static_cast<size_t>(num_blocks) - 1);
    std::iota(order.begin(), order.end(), 1);
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[philox4x32(seed, {static_cast<uint32_t>(i), 0, 0, 0})[0] % i]);
    }
    block_table_.assign(requests_.size() * static_cast<size_t>(max_blocks_), 0);
    size_t next = 0;
    for (size_t r = 0; r < requests_.size(); ++r) {
      const int64_t blocks = (seq_lens_[r] + c_.block_size - 1) / c_.block_size;
      // Blocks wholly before the window can be free already, and are then the null block.
      const int32_t first_seen =
          c_.sliding_window > 0 ? requests_[r].context - c_.sliding_window + 1 : 0;
      for (int64_t b = 0; b < blocks; ++b) {
        const int32_t block = order[next++];
        const bool freed = (b + 1) * c_.block_size <= first_seen;
        block_table_[r * static_cast<size_t>(max_blocks_) + static_cast<size_t>(b)] =
            freed ? 0 : block;
      }
    }
  }

  void fill(int64_t r) {
    const Request& request = requests_[r];
    const int64_t d = c_.head_dim;
    const KvCacheView kv = view();
    for (int32_t position = 0; position < seq_lens_[r]; ++position) {
      const int64_t block = block_table_[r * max_blocks_ + position / c_.block_size];
      if (block == 0) continue;
      const auto key =
          random_floats(request.identity * 4 + 1 + (uint64_t(position) << 32), c_.num_kv_heads * d);
      const auto value =
          random_floats(request.identity * 4 + 2 + (uint64_t(position) << 32), c_.num_kv_heads * d);
      for (int64_t h = 0; h < c_.num_kv_heads; ++h) {
        store_row(kv, true, block, h, position, key.data() + h * d);
        if (!kv.is_latent()) store_row(kv, false, block, h, position, value.data() + h * d);
      }
    }
    for (int32_t i = 0; i < request.query; ++i) {
      const uint64_t position = static_cast<uint64_t>(request.context + i);
      // Queries of norm about 3: scores spread enough that the running maximum moves.
      auto row = random_floats(request.identity * 4 + 3 + (position << 32), query_stride(), 5.0f);
      query_.insert(query_.end(), row.begin(), row.end());
    }
  }

  AttentionCase c_;
  DType dtype_;
  std::vector<Request> requests_;
  Buffer memory_k_, memory_v_;
  int64_t block_stride_ = 0;
  int64_t max_blocks_ = 0;
  std::vector<int32_t> query_start_loc_, seq_lens_, seen_ends_, block_table_;
  std::vector<float> query_, sinks_, alibi_slopes_, position_bias_, key_scale_, value_scale_;
};

std::vector<Batch::Request> requests_of(const AttentionCase& c) {
  std::vector<Batch::Request> requests;
  for (size_t r = 0; r < c.query_lens.size(); ++r)
    requests.push_back({r + 1, c.context_lens[r], c.query_lens[r]});
  return requests;
}

// |v| < 1, |q| < 5, |k| < 1. A score is a sum of D products, off by about eps * sqrt(D) * 5 *
// sqrt(D) * scale = 5 eps sqrt(D), and moves its weight by that share; weights and values average
// to below 1 in magnitude. Plus the exponential (2 ulp) and sums over tiles. Factor 4 for the tail.
// With a bf16, fp8 or int8 cache every weight is rounded to 8 bits, at worst all to the same side.
double tolerance(const AttentionCase& c, DType dtype) {
  const double weights = is_in_pairs(dtype) ? 0x1p-9 : 0.0;
  return weights + kEpsilon * 4.0 * (5.0 * std::sqrt(static_cast<double>(c.head_dim)) + 16.0);
}

constexpr std::array kTypes = {DType::kF32,    DType::kBF16,   DType::kF16,
                               DType::kF8E4M3, DType::kF8E5M2, DType::kI8};

bool is_slow(Isa isa) { return isa == Isa::kPortable || isa == Isa::kAmxEmulated; }

// Slow paths run on one type of the cache per case, in turn.
TEST(PagedAttention, MatchesReferenceOnEveryIsaAndType) {
  size_t num_cases = 0;
  for (const AttentionCase& c : kernel_cases::attention_cases()) {
    const DType type_in_turn = kTypes[num_cases++ % kTypes.size()];
    for (const DType dtype : kTypes) {
      Batch batch(c, dtype, requests_of(c), 1);
      const auto want = batch.reference();
      for (const Isa isa : kernel_test::isas()) {
        if (is_slow(isa) && dtype != type_in_turn) continue;
        SCOPED_TRACE(::testing::Message()
                     << to_string(isa) << " " << to_string(dtype) << " heads " << c.num_heads << "/"
                     << c.num_kv_heads << " dim " << c.head_dim << " block " << c.block_size
                     << " window " << c.sliding_window);
        Host host(isa);
        const auto got = batch.run(host.stream);
        ASSERT_TRUE(kernel_test::close(got.data(), want.data(), static_cast<int64_t>(want.size()),
                                       tolerance(c, dtype)));
      }
    }
  }
}

// Law L4: results do not depend on threads, other requests or the places of blocks.
TEST(PagedAttention, BitsDoNotDependOnThreadsBlocksOrNeighbours) {
  for (const AttentionCase& c : kernel_cases::attention_cases()) {
    for (const Isa isa : kernel_test::isas()) {
      // Each shape runs with one type, and each type with many shapes.
      const DType dtype = kTypes[static_cast<size_t>(c.head_dim + c.num_heads) % kTypes.size()];
      const auto requests = requests_of(c);
      Host one(isa, 1);
      const auto together = Batch(c, dtype, requests, 1).run(one.stream);
      for (const int threads : {2, 3}) {
        Host host(isa, threads);
        const auto again = Batch(c, dtype, requests, 17 + threads).run(host.stream);
        ASSERT_TRUE(kernel_test::same_bits(again.data(), together.data(),
                                           static_cast<int64_t>(together.size())))
            << to_string(isa) << " threads " << threads;
      }
      size_t at = 0;
      for (const auto& request : requests) {
        const auto alone = Batch(c, dtype, {request}, 5).run(one.stream);
        ASSERT_TRUE(kernel_test::same_bits(alone.data(), together.data() + at,
                                           static_cast<int64_t>(alone.size())))
            << to_string(isa) << " request " << request.identity;
        at += alone.size();
      }
    }
  }
}

// Values that are not finite do not reach rows before them or rows of other requests.
TEST(PagedAttention, WhatIsNotFiniteStaysInItsRows) {
  AttentionCase c;
  c.num_heads = 8;
  c.num_kv_heads = 2;
  c.head_dim = 64;
  c.block_size = 16;
  const std::vector<Batch::Request> requests = {{.identity = 3, .context = 300, .query = 5}};
  const int64_t token = int64_t{c.num_heads} * c.head_dim;
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    for (const DType dtype : {DType::kBF16, DType::kF8E4M3, DType::kI8}) {
      Batch batch(c, dtype, requests, 1);
      const auto want = batch.run(host.stream);
      batch.spoil_first_query();
      auto got = batch.run(host.stream);
      EXPECT_TRUE(kernel_test::same_bits(got.data() + token, want.data() + token, 4 * token))
          << to_string(isa) << " " << to_string(dtype) << " beside a score that overflows";
      if (dtype != DType::kI8) continue;
      batch.spoil_last_value();
      got = batch.run(host.stream);
      EXPECT_TRUE(kernel_test::same_bits(got.data() + token, want.data() + token, 3 * token))
          << to_string(isa) << " before a token that is not finite";
    }
  }
}

// Law L4: the bits of a row do not depend on how its prompt is cut into steps.
TEST(PagedAttention, BitsDoNotDependOnChunking) {
  const std::vector<AttentionCase> shapes = {
      {8, 2, 64, 16, {}, {}},
      {4, 2, 24, 8, {}, {}, 40},
      {14, 2, 64, 16, {}, {}, 0, 20.0f, true},
      {4, 1, 32, 32, {}, {}, 100},
      {16, 1, 80, 16, {}, {}},
      {4, 2, 40, 16, {}, {}, 0, 0.0f, false, true},
      {4, 2, 56, 16, {}, {}, 48, 0.0f, false, false, true, 0, true},
      {16, 1, 80, 16, {}, {}, 0, 0.0f, false, false, true, 64},
      {6, 1, 40, 8, {}, {}, 0, 0.0f, false, false, true, 32},
      {4, 2, 32, 16, {}, {}, 0, 0.0f, false, false, true, 0, false, true},
      {8, 1, 48, 16, {}, {}, 40, 0.0f, false, false, true, 0, false, true},
      {4, 2, 32, 16, {}, {}, 0, 0.0f, false, false, true, 0, false, false, 50}};
  for (const AttentionCase& c : shapes) {
    const int32_t length = c.head_dim == 32 ? 1300 : c.head_dim == 80 ? 530 : 200;
    std::vector<DType> types = {DType::kF32, DType::kBF16};
    if (c.head_dim == 24) types = {DType::kF8E4M3};  // copied tile by tile
    if (c.soft_cap > 0.0f) types = {DType::kI8};
    if (c.head_dim == 80) types = {DType::kBF16};  // one tile of rows or more, two splits
    for (const DType dtype : types) {
      for (const Isa isa : kernel_test::isas()) {
        Host host(isa, 2);
        const auto whole = Batch(c, dtype, {{1, 0, length}}, 1).run(host.stream);
        const int64_t row = int64_t{c.num_heads} * c.value_dim();
        for (const int32_t chunk : {1, 7, 64, 512}) {
          if (c.has_images && chunk % 16 != 0) continue;  // an image is computed whole
          if (is_slow(isa) && chunk == 7) continue;
          // A sample of the small ones is enough.
          const int32_t stride = chunk == 1 ? 37 : chunk == 7 ? 35 : chunk;
          for (int32_t begin = 0; begin < length; begin += stride) {
            const int32_t n = std::min(chunk, length - begin);
            const auto part = Batch(c, dtype, {{1, begin, n}}, 3).run(host.stream);
            ASSERT_TRUE(kernel_test::same_bits(part.data(), whole.data() + begin * row, n * row))
                << to_string(isa) << " chunk " << chunk << " at " << begin << " window "
                << c.sliding_window;
          }
        }
      }
    }
  }
}

// How much the type of the cache changes the output of a long context: the root mean square
// difference from a float cache, as a share of the output's size. Keys and values are normal, with
// one channel four times as large, and weights are spread over many positions, so that the output
// is small compared to the values. That is a hard case.
//
// The budget follows from the formats, to first order: three standard deviations of independent
// rounding errors. Let e(x) be the largest error of an element x: x times the unit roundoff, for
// int8 half a step of 1 / 127 of its token's largest element; its variance is at most e^2 / 3. With
// weights w of sum 1, output o, and b = 2^-9 for queries and weights, which become bf16:
//   (budget / 3)^2 |o|^2 = 1/3 sum_i w_i^2 (|e(v_i)|^2 + b^2 |v_i|^2 + s_i^2 |v_i - o|^2)
//   s_i^2 = scale^2 sum_d q_d^2 (e(k_id)^2 + b^2 k_id^2)
class ErrorBudget {
 public:
  ErrorBudget(DType dtype, int64_t dim) : dtype_(dtype), dim_(dim) {}

  // Adds one query over `n` tokens, whose keys and values are `stride` elements apart.
  void add(const float* query, float scale, const float* keys, const float* values, int64_t stride,
           int64_t n) {
    std::vector<double> weights, score_errors, out(static_cast<size_t>(dim_));
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) {
      const float* key = keys + i * stride;
      const double largest = largest_of(key);
      double score = 0.0, error = 0.0;
      for (int64_t d = 0; d < dim_; ++d) {
        score += double{query[d]} * key[d];
        error += double{query[d]} * query[d] * error_square(key[d], largest);
      }
      weights.push_back(std::exp(scale * score));
      score_errors.push_back(double{scale} * scale * error);
      sum += weights.back();
    }
    for (int64_t i = 0; i < n; ++i) {
      weights[i] /= sum;
      for (int64_t d = 0; d < dim_; ++d) out[d] += weights[i] * values[i * stride + d];
    }
    for (int64_t i = 0; i < n; ++i) {
      const float* value = values + i * stride;
      const double largest = largest_of(value);
      double moved = 0.0;
      for (int64_t d = 0; d < dim_; ++d) {
        const double away = value[d] - out[d];
        moved += error_square(value[d], largest) + score_errors[i] * away * away;
      }
      error_ += weights[i] * weights[i] * moved;
    }
    for (const double x : out) size_ += x * x;
  }
  double share() const { return 3.0 * std::sqrt(error_ / 3.0 / size_); }

 private:
  double largest_of(const float* x) const {
    double largest = 0.0;
    for (int64_t d = 0; d < dim_; ++d) largest = std::max(largest, std::abs(double{x[d]}));
    return largest;
  }
  // Returns e(x)^2 + (b x)^2.
  double error_square(double x, double largest) const {
    double e = 0x1p-9 * x;
    if (dtype_ == DType::kF8E4M3) e = 0x1p-4 * x;
    if (dtype_ == DType::kF8E5M2) e = 0x1p-3 * x;
    if (dtype_ == DType::kI8) e = largest / 254.0;
    return e * e + 0x1p-18 * x * x;
  }

  DType dtype_;
  int64_t dim_;
  double error_ = 0.0, size_ = 0.0;
};

TEST(PagedAttention, QuantizedCachesStayWithinTheirBudgetOnLongContexts) {
  constexpr int32_t kContext = 3000, kBlockSize = 16, kHeads = 4, kKvHeads = 2, kDim = 64;
  constexpr float kScale = 0.25f;
  constexpr int64_t kRow = (kHeads + 2 * kKvHeads) * kDim;
  constexpr int64_t kBlocks = (kContext + kBlockSize - 1) / kBlockSize;
  std::vector<float> qkv;
  for (int64_t i = 0; i < 12 * kContext * kRow; i += 12 * kRow) {
    const auto uniform = random_floats(static_cast<uint64_t>(i), 12 * kRow, 0.5f);
    for (int64_t j = 0; j < kRow; ++j) {
      float normal = std::accumulate(&uniform[j * 12], &uniform[j * 12 + 12], 0.0f);
      if (j >= kHeads * kDim && j % kDim == 7) normal *= 4.0f;
      qkv.push_back(normal);
    }
  }
  std::vector<int64_t> slots(kContext);
  std::iota(slots.begin(), slots.end(), 0);
  std::vector<int32_t> table(kBlocks);
  std::iota(table.begin(), table.end(), 0);
  Host host(best_isa());
  const auto attend = [&](DType dtype) {
    const int64_t half = kv_half_block_bytes(dtype, kKvHeads, kDim, kBlockSize);
    Buffer key(kBlocks * half), value(kBlocks * half);
    const KvCacheView kv{key.data(), value.data(), dtype, half / size_bytes(dtype),
                         kBlockSize, kKvHeads,     kDim};
    std::vector<float> rows = qkv;
    qkv_to_cache(host.stream, {.qkv = rows.data(),
                               .qkv_stride = kRow,
                               .rope_style = RopeStyle::kNone,
                               .slot_mapping = slots.data(),
                               .kv = kv,
                               .num_tokens = kContext,
                               .num_heads = kHeads});
    std::vector<float> out(kHeads * kDim);
    const int32_t starts[] = {0, 1};
    const int32_t length = kContext;
    Buffer workspace(paged_attention_workspace_bytes(host.stream, 1, 1, kContext, kHeads, kDim));
    paged_attention(host.stream, {.query = rows.data() + (kContext - 1) * kRow,
                                  .query_stride = kRow,
                                  .kv = kv,
                                  .query_start_loc = starts,
                                  .seq_lens = &length,
                                  .block_table = table.data(),
                                  .max_blocks = kBlocks,
                                  .num_reqs = 1,
                                  .num_heads = kHeads,
                                  .scale = kScale,
                                  .out = out.data(),
                                  .workspace = workspace.data()});
    return out;
  };
  const auto exact = attend(DType::kF32);
  const double size = std::inner_product(exact.begin(), exact.end(), exact.begin(), 0.0);
  for (const DType dtype : {DType::kBF16, DType::kI8, DType::kF8E4M3, DType::kF8E5M2}) {
    ErrorBudget budget(dtype, kDim);
    for (int32_t h = 0; h < kHeads; ++h) {
      const float* keys = qkv.data() + (kHeads + h / (kHeads / kKvHeads)) * kDim;
      budget.add(qkv.data() + (kContext - 1) * kRow + h * kDim, kScale, keys,
                 keys + kKvHeads * kDim, kRow, kContext);
    }
    const auto got = attend(dtype);
    double error = 0.0;
    for (size_t i = 0; i < got.size(); ++i) {
      error += (double{got[i]} - exact[i]) * (double{got[i]} - exact[i]);
    }
    const double share = std::sqrt(error / size);
    RecordProperty(std::string(to_string(dtype)), std::to_string(share / budget.share()));
    EXPECT_LE(share, budget.share()) << to_string(dtype);
    EXPECT_GE(share, budget.share() / 10.0) << to_string(dtype);  // the budget is not too wide
  }
}

TEST(PagedAttention, EmptyRequestsAreSkipped) {
  const AttentionCase c{2, 1, 16, 16, {}, {}};
  Host host(best_isa());
  const auto got = Batch(c, DType::kF32, {{1, 5, 0}, {2, 3, 2}, {3, 9, 0}}, 1).run(host.stream);
  const auto alone = Batch(c, DType::kF32, {{2, 3, 2}}, 1).run(host.stream);
  ASSERT_TRUE(kernel_test::same_bits(got.data(), alone.data(), static_cast<int64_t>(alone.size())));
}

}  // namespace
}  // namespace quire
