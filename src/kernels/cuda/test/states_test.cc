// The ops of states on a GPU: close to the reference over two steps, and with the same bits however
// a sequence is cut into segments.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "kernels/api/causal_conv.h"
#include "kernels/api/delta_rule.h"
#include "kernels/api/selective_scan.h"
#include "kernels/api/ssd_scan.h"
#include "kernels/api/step_gates.h"
#include "kernels/cuda/test/test_device.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using kernel_test::close;
using kernel_test::random_floats;
using kernel_test::same_bits;

constexpr int64_t kBlocks = 24;
constexpr double kTolerance = 4e-5;
const std::vector<int32_t> kLengths = {5, 1, 9, 2};

int64_t num_tokens() { return std::accumulate(kLengths.begin(), kLengths.end(), int64_t{0}); }

// Sequence i has kLengths[i] tokens, in segments of at most `chunk`; each snapshot is kept. The
// first sequence continues from block 1, which is zeros; the others begin anew. Two segments of
// padding follow.
struct Cut {
  explicit Cut(int32_t chunk) {
    int32_t block = 2;
    for (size_t i = 0; i < kLengths.size(); ++i) {
      int32_t in = i == 0 ? 1 : 0;
      for (int32_t left = kLengths[i]; left > 0; left -= chunk) {
        start_loc.push_back(start_loc.back() + std::min(left, chunk));
        state_in.push_back(in);
        state_out.push_back(in = block++);
      }
      last_blocks.push_back(in);
    }
    for (int i = 0; i < 2; ++i) {
      start_loc.push_back(start_loc.back());
      state_in.push_back(0);
      state_out.push_back(0);
    }
  }
  StateSegments segments() const {
    return {start_loc.data(), state_in.data(), state_out.data(),
            static_cast<int32_t>(state_in.size())};
  }

  std::vector<int32_t> start_loc = {0}, state_in, state_out, last_blocks;
};

// An op with its inputs, which `run` reads on the host (for the reference, without a stream) or on
// the device, and its results [T, width].
struct StateOp {
  int64_t width = 0;
  int64_t state_floats = 0;
  std::function<void(Stream*, const StateSegments&, StateView, float*)> run;
};

class GpuStates : public gpu_test::GpuTest {
 protected:
  // Returns the results of a step, and writes the states to `pool`.
  std::vector<float> run(const StateOp& op, const Cut& cut, float* pool) {
    auto* out = static_cast<float*>(GpuTest::poisoned(num_tokens() * op.width * 4));
    op.run(&stream(),
           {upload(cut.start_loc), upload(cut.state_in), upload(cut.state_out),
            static_cast<int32_t>(cut.state_in.size())},
           {pool, op.state_floats}, out);
    return download<float>(out, num_tokens() * op.width);
  }
  static std::vector<float> new_pool(const StateOp& op) {
    std::vector<float> pool = kernel_test::poisoned(kBlocks * op.state_floats);
    std::fill_n(pool.begin() + op.state_floats, op.state_floats, 0.0f);
    return pool;
  }
  // Returns segments for the same sequences, which continue from the states that the first step
  // left.
  static Cut next_step(const Cut& cut) {
    Cut next(1 << 20);
    for (size_t i = 0; i < kLengths.size(); ++i)
      next.state_in[i] = next.state_out[i] = cut.last_blocks[i];
    return next;
  }

  void check(const StateOp& op) {
    const Cut whole(1 << 20);
    std::vector<float> host_pool = new_pool(op);
    std::vector<std::vector<float>> want;
    for (const Cut& cut : {whole, next_step(whole)}) {
      want.push_back(kernel_test::poisoned(num_tokens() * op.width));
      op.run(nullptr, cut.segments(), {host_pool.data(), op.state_floats}, want.back().data());
    }
    std::vector<std::vector<float>> first;
    for (const int32_t chunk : {1 << 20, 1, 2, 3, 7}) {
      SCOPED_TRACE(::testing::Message() << "chunks of " << chunk);
      const Cut cut(chunk);
      float* pool = upload(new_pool(op));
      std::vector<std::vector<float>> got = {run(op, cut, pool)};
      got.push_back(run(op, next_step(cut), pool));
      for (size_t i = 0; i < 2; ++i)
        ASSERT_TRUE(close(got[i].data(), want[i].data(), std::ssize(want[i]), kTolerance));
      if (first.empty()) first = got;
      for (size_t i = 0; i < 2; ++i)
        ASSERT_TRUE(same_bits(got[i].data(), first[i].data(), std::ssize(first[i])));
    }
    check_unkept(op, first.front());
  }

  // Without keeping states the results are the same, and no block is written.
  void check_unkept(const StateOp& op, const std::vector<float>& kept) {
    Cut cut(1 << 20);
    std::fill(cut.state_out.begin(), cut.state_out.end(), 0);
    const std::vector<float> before = new_pool(op);
    float* pool = upload(before);
    const std::vector<float> got = run(op, cut, pool);
    EXPECT_TRUE(same_bits(got.data(), kept.data(), std::ssize(kept)));
    const auto after = download<float>(pool, std::ssize(before));
    EXPECT_TRUE(same_bits(after.data(), before.data(), std::ssize(before)));
  }

  // Returns the values where an op on `stream` can read them.
  const float* at(Stream* stream, const std::vector<float>& host, const float* device) {
    return stream == nullptr ? host.data() : device;
  }
};

TEST_F(GpuStates, CausalConvMatchesReference) {
  for (const int32_t taps : {1, 2, 4, 5, 16}) {
    for (const int64_t channels : {1, 37, 130}) {
      for (const bool gated : {false, true}) {
        const int64_t stride = 3 * channels + 2;
        const auto x = random_floats(1, num_tokens() * stride);
        const auto weight = random_floats(2, channels * taps);
        const auto bias = random_floats(3, channels);
        const float* gpu_x = upload(x);
        const float* gpu_weight = upload(weight);
        const float* gpu_bias = upload(bias);
        StateOp op{.width = channels, .state_floats = causal_conv_state_floats(taps, channels)};
        op.run = [&](Stream* to, const StateSegments& segments, StateView view, float* out) {
          const float* rows = at(to, x, gpu_x);
          const CausalConvParams params{.x = rows + 1,
                                        .in_gate = gated ? rows + channels : nullptr,
                                        .out_gate = gated ? rows + 2 * channels : nullptr,
                                        .x_stride = stride,
                                        .weight = at(to, weight, gpu_weight),
                                        .bias = gated ? nullptr : at(to, bias, gpu_bias),
                                        .silu = !gated,
                                        .out = out,
                                        .out_stride = channels,
                                        .segments = segments,
                                        .state = view,
                                        .kernel_size = taps,
                                        .num_channels = channels};
          to != nullptr ? causal_conv(*to, params) : ref::causal_conv(params);
        };
        check(op);
      }
    }
  }
}

TEST_F(GpuStates, SelectiveScanMatchesReference) {
  for (const int64_t channels : {1, 40}) {
    for (const int64_t states : {1, 5, 16, 70}) {
      // Rows that consist of whole pieces of 16 bytes, and rows that do not.
      const int64_t gap = channels % 4 == 0 && states % 4 == 0 ? 4 : 3;
      const int64_t stride = 2 * states + gap;
      const int64_t x_stride = channels + gap;
      const auto x = random_floats(1, num_tokens() * x_stride);
      const auto bc = random_floats(2, num_tokens() * stride);
      const auto d = random_floats(3, channels);
      auto delta = random_floats(4, num_tokens() * channels);
      auto a = random_floats(5, channels * states, 3.0f);
      for (float& one : delta) one = std::abs(one) + 0.01f;
      for (float& one : a) one = -std::abs(one);
      const float *gpu_x = upload(x), *gpu_bc = upload(bc), *gpu_d = upload(d);
      const float *gpu_delta = upload(delta), *gpu_a = upload(a);
      StateOp op{.width = channels, .state_floats = selective_scan_state_floats(channels, states)};
      op.run = [&](Stream* to, const StateSegments& segments, StateView view, float* out) {
        const SelectiveScanParams params{.x = at(to, x, gpu_x),
                                         .x_stride = x_stride,
                                         .delta = at(to, delta, gpu_delta),
                                         .b = at(to, bc, gpu_bc) + gap,
                                         .c = at(to, bc, gpu_bc) + gap + states,
                                         .bc_stride = stride,
                                         .a = at(to, a, gpu_a),
                                         .d = at(to, d, gpu_d),
                                         .out = out,
                                         .segments = segments,
                                         .state = view,
                                         .num_channels = channels,
                                         .num_states = states};
        to != nullptr ? selective_scan(*to, params) : ref::selective_scan(params);
      };
      check(op);
    }
  }
}

TEST_F(GpuStates, SsdScanMatchesReference) {
  struct Shape {
    int32_t heads, groups;
    int64_t dim, states;
  };
  for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{4, 2, 8, 5}, Shape{3, 3, 33, 16},
                             Shape{2, 1, 20, 130}, Shape{4, 2, 36, 100}}) {
    const int64_t width = shape.heads * shape.dim;
    const int64_t gap = shape.heads % 4 == 0 && shape.states % 4 == 0 ? 4 : 1;
    const int64_t stride = width + 2 * shape.groups * shape.states + gap;
    const auto x = random_floats(1, num_tokens() * stride);
    const auto d = random_floats(2, shape.heads);
    auto delta = random_floats(3, num_tokens() * shape.heads);
    auto decay = random_floats(4, num_tokens() * shape.heads);
    for (float& one : delta) one = std::abs(one) + 0.01f;
    for (float& one : decay) one = std::abs(one);
    const float *gpu_x = upload(x), *gpu_d = upload(d);
    const float *gpu_delta = upload(delta), *gpu_decay = upload(decay);
    StateOp op{.width = width,
               .state_floats = ssd_scan_state_floats(shape.heads, shape.dim, shape.states)};
    op.run = [&](Stream* to, const StateSegments& segments, StateView view, float* out) {
      const float* rows = at(to, x, gpu_x);
      const SsdScanParams params{.x = rows,
                                 .b = rows + width,
                                 .c = rows + width + shape.groups * shape.states,
                                 .x_stride = stride,
                                 .delta = at(to, delta, gpu_delta),
                                 .decay = at(to, decay, gpu_decay),
                                 .d = at(to, d, gpu_d),
                                 .out = out,
                                 .segments = segments,
                                 .state = view,
                                 .num_heads = shape.heads,
                                 .num_groups = shape.groups,
                                 .head_dim = shape.dim,
                                 .num_states = shape.states};
      to != nullptr ? ssd_scan(*to, params) : ref::ssd_scan(params);
    };
    check(op);
  }
}

TEST_F(GpuStates, DeltaRuleMatchesReference) {
  struct Shape {
    int32_t heads, key_heads;
    int64_t key_dim, value_dim;
    bool channel_decay = false, tiled = false;
  };
  for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{4, 2, 8, 5}, Shape{4, 2, 33, 20, false, true},
                             Shape{3, 3, 130, 18}, Shape{2, 2, 16, 17, true}, Shape{4, 2, 100, 36},
                             Shape{4, 4, 68, 12, true}}) {
    const int64_t keys = shape.key_heads * shape.key_dim;
    const int64_t width = shape.heads * shape.value_dim;
    const int64_t gap = shape.heads % 4 == 0 && shape.key_dim % 4 == 0 ? 4 : 1;
    const int64_t stride = 2 * keys + width + gap;
    const int64_t decays = shape.heads * (shape.channel_decay ? shape.key_dim : 1);
    // Keys of length below 1 keep the rule stable.
    const float size = 0.9f / std::sqrt(static_cast<float>(shape.key_dim));
    const auto x = random_floats(1, num_tokens() * stride, size);
    auto decay = random_floats(2, num_tokens() * decays);
    auto beta = random_floats(3, num_tokens() * shape.heads);
    for (float& one : decay) one = std::abs(one);
    for (float& one : beta) one = std::abs(one);
    const float *gpu_x = upload(x), *gpu_decay = upload(decay), *gpu_beta = upload(beta);
    StateOp op{
        .width = width,
        .state_floats = delta_rule_state_floats(shape.heads, shape.key_dim, shape.value_dim)};
    op.run = [&](Stream* to, const StateSegments& segments, StateView view, float* out) {
      const float* rows = at(to, x, gpu_x);
      const DeltaRuleParams params{.q = rows,
                                   .k = rows + keys,
                                   .v = rows + 2 * keys,
                                   .qkv_stride = stride,
                                   .decay = at(to, decay, gpu_decay),
                                   .has_channel_decay = shape.channel_decay,
                                   .beta = at(to, beta, gpu_beta),
                                   .out = out,
                                   .segments = segments,
                                   .state = view,
                                   .num_heads = shape.heads,
                                   .num_key_heads = shape.key_heads,
                                   .tiled_heads = shape.tiled,
                                   .key_dim = shape.key_dim,
                                   .value_dim = shape.value_dim};
      to != nullptr ? delta_rule(*to, params) : ref::delta_rule(params);
    };
    check(op);
  }
}

TEST_F(GpuStates, GatesMatchReference) {
  constexpr int64_t kTokens = 5;
  for (const int64_t repeat : {1, 4}) {
    const int64_t size = 3 * repeat, stride = size + 2;
    const auto x = random_floats(1, kTokens * stride, 30.0f);
    const auto bias = random_floats(2, size);
    auto a = random_floats(3, 3);
    for (float& one : a) one = -std::abs(one);
    StepGatesParams p{.x = upload(x),
                      .x_stride = stride,
                      .bias = upload(bias),
                      .a = upload(a),
                      .repeat = repeat,
                      .min_delta = 0.01f,
                      .max_delta = 20.0f,
                      .delta = static_cast<float*>(GpuTest::poisoned(kTokens * size * 4)),
                      .decay = static_cast<float*>(GpuTest::poisoned(kTokens * size * 4)),
                      .num_tokens = kTokens,
                      .size = size};
    step_gates(stream(), p);
    const auto delta = download<float>(p.delta, kTokens * size);
    const auto decay = download<float>(p.decay, kTokens * size);
    std::vector<float> want_delta = kernel_test::poisoned(kTokens * size);
    std::vector<float> want_decay = want_delta;
    p.x = x.data();
    p.bias = bias.data();
    p.a = a.data();
    p.delta = want_delta.data();
    p.decay = want_decay.data();
    ref::step_gates(p);
    ASSERT_TRUE(close(delta.data(), want_delta.data(), kTokens * size, 1e-5));
    ASSERT_TRUE(close(decay.data(), want_decay.data(), kTokens * size, 1e-5));
  }
  const auto x = random_floats(4, 3 * 21, 90.0f);
  auto* out = static_cast<float*>(GpuTest::poisoned(3 * 20 * 4));
  SigmoidParams p{.x = upload(x), .x_stride = 21, .out = out, .num_tokens = 3, .size = 20};
  sigmoid(stream(), p);
  const auto got = download<float>(out, 3 * 20);
  std::vector<float> want = kernel_test::poisoned(3 * 20);
  p.x = x.data();
  p.out = want.data();
  ref::sigmoid(p);
  ASSERT_TRUE(close(got.data(), want.data(), 3 * 20, 1e-6));
}

}  // namespace
}  // namespace quire
