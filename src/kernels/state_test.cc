#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using kernel_test::close;
using kernel_test::Host;
using kernel_test::isas;
using kernel_test::poisoned;
using kernel_test::random_floats;
using kernel_test::same_bits;

// The tokens of a batch, cut into segments. Sequence i has lengths[i] tokens. The first sequence
// continues from the state in block 1, the others begin with zeros.
struct Batch {
  explicit Batch(const std::vector<int32_t>& lengths) {
    for (const int32_t length : lengths) add(length, start_loc.size() == 1 ? 1 : 0);
  }
  // `chunk` is the most tokens of a segment. A later segment continues from the block that the one
  // before wrote.
  Batch(const std::vector<int32_t>& lengths, int32_t chunk) {
    for (size_t i = 0; i < lengths.size(); ++i) {
      int32_t in = i == 0 ? 1 : 0;
      const auto out = static_cast<int32_t>(i + 2);
      for (int32_t left = lengths[i]; left > 0; left -= chunk, in = out)
        add(std::min(left, chunk), in, out);
    }
  }
  void add(int32_t length, int32_t in, int32_t out = 0) {
    start_loc.push_back(start_loc.back() + length);
    state_in.push_back(in);
    state_out.push_back(out != 0 ? out : static_cast<int32_t>(state_in.size()) + 1);
  }
  StateSegments segments() const {
    return {start_loc.data(), state_in.data(), state_out.data(),
            static_cast<int32_t>(state_in.size())};
  }
  int64_t num_tokens() const { return start_loc.back(); }

  std::vector<int32_t> start_loc = {0}, state_in, state_out;
};

const std::vector<int32_t> kLengths = {5, 1, 9, 2};
constexpr int64_t kBlocks = 8;

// An op with states, on random inputs. `run` computes out [T, width] of a batch, with blocks of
// `state_floats`, on a stream or, without one, as the reference.
struct StateOp {
  int64_t width = 0;
  int64_t state_floats = 0;
  std::function<void(Stream*, const StateSegments&, StateView, float*)> run;
};

std::vector<float> run_twice(const StateOp& op, Stream* stream, const Batch& batch,
                             std::vector<float>& pool) {
  std::vector<float> out = poisoned(2 * batch.num_tokens() * op.width);
  const StateView view{pool.data(), op.state_floats};
  op.run(stream, batch.segments(), view, out.data());
  // The second run continues from the states of the first.
  Batch next = batch;
  next.state_in = batch.state_out;
  op.run(stream, next.segments(), view, out.data() + batch.num_tokens() * op.width);
  return out;
}

std::vector<float> new_pool(const StateOp& op) {
  std::vector<float> pool = poisoned(kBlocks * op.state_floats);
  std::fill_n(pool.begin() + op.state_floats, op.state_floats, 0.0f);
  return pool;
}

// Expects results close to the reference over two steps, and the same bits with segments of any
// length, alone and on any number of threads.
void check_op(const StateOp& op, double tolerance) {
  const Batch batch(kLengths);
  std::vector<float> pool = new_pool(op);
  const std::vector<float> want = run_twice(op, nullptr, batch, pool);
  for (const Isa isa : isas()) {
    Host host(isa);
    pool = new_pool(op);
    const std::vector<float> got = run_twice(op, &host.stream, batch, pool);
    ASSERT_TRUE(close(got.data(), want.data(), std::ssize(want), tolerance)) << to_string(isa);
    for (const int32_t chunk : {1, 2, 3, 7}) {
      Host other(isa, 3);
      std::vector<float> other_pool = new_pool(op);
      const Batch cut(kLengths, chunk);
      std::vector<float> out = poisoned(batch.num_tokens() * op.width);
      op.run(&other.stream, cut.segments(), {other_pool.data(), op.state_floats}, out.data());
      ASSERT_TRUE(same_bits(out.data(), got.data(), std::ssize(out)))
          << to_string(isa) << " in chunks of " << chunk;
    }
  }
}

// If states are not kept, results are the same and no block is written.
void check_unkept(const StateOp& op) {
  for (const Isa isa : isas()) {
    Host host(isa);
    Batch batch(kLengths);
    std::vector<float> pool = new_pool(op);
    std::vector<float> kept = poisoned(batch.num_tokens() * op.width);
    op.run(&host.stream, batch.segments(), {pool.data(), op.state_floats}, kept.data());
    std::fill(batch.state_out.begin(), batch.state_out.end(), 0);
    pool = new_pool(op);
    const std::vector<float> before = pool;
    std::vector<float> out = poisoned(batch.num_tokens() * op.width);
    op.run(&host.stream, batch.segments(), {pool.data(), op.state_floats}, out.data());
    EXPECT_TRUE(same_bits(out.data(), kept.data(), std::ssize(out))) << to_string(isa);
    EXPECT_TRUE(same_bits(pool.data(), before.data(), std::ssize(pool))) << to_string(isa);
  }
}

int64_t num_tokens() { return std::accumulate(kLengths.begin(), kLengths.end(), int64_t{0}); }

// Errors are a few epsilon of the sums' largest terms, and decays below 1 keep them so; the bounds
// are 20 times what is measured.
constexpr double kTolerance = 2e-5;

TEST(State, CausalConvMatchesReference) {
  for (const int32_t taps : {1, 2, 3, 4, 5, 16}) {
    for (const int64_t channels : {1, 16, 37}) {
      for (const bool gated : {false, true}) {
        const int64_t stride = 3 * channels + 2;
        const auto x = random_floats(1, num_tokens() * stride);
        const auto weight = random_floats(2, channels * taps);
        const auto bias = random_floats(3, channels);
        StateOp op{.width = channels, .state_floats = causal_conv_state_floats(taps, channels)};
        op.run = [&](Stream* stream, const StateSegments& segments, StateView view, float* out) {
          const CausalConvParams params{.x = x.data() + 1,
                                        .in_gate = gated ? x.data() + channels : nullptr,
                                        .out_gate = gated ? x.data() + 2 * channels : nullptr,
                                        .x_stride = stride,
                                        .weight = weight.data(),
                                        .bias = gated ? nullptr : bias.data(),
                                        .silu = !gated,
                                        .out = out,
                                        .out_stride = channels,
                                        .segments = segments,
                                        .state = view,
                                        .kernel_size = taps,
                                        .num_channels = channels};
          stream != nullptr ? causal_conv(*stream, params) : ref::causal_conv(params);
        };
        check_op(op, kTolerance);
        check_unkept(op);
      }
    }
  }
}

TEST(State, SelectiveScanMatchesReference) {
  for (const int64_t channels : {1, 16, 40}) {
    for (const int64_t states : {1, 5, 16}) {
      const int64_t stride = 2 * states + 3;
      const auto x = random_floats(1, num_tokens() * (channels + 1));
      const auto bc = random_floats(2, num_tokens() * stride);
      const auto d = random_floats(3, channels);
      auto delta = random_floats(4, num_tokens() * channels);
      auto a = random_floats(5, channels * states, 3.0f);
      for (float& one : delta) one = std::abs(one) + 0.01f;
      for (float& one : a) one = -std::abs(one);
      StateOp op{.width = channels, .state_floats = selective_scan_state_floats(channels, states)};
      op.run = [&](Stream* stream, const StateSegments& segments, StateView view, float* out) {
        const SelectiveScanParams params{.x = x.data(),
                                         .x_stride = channels + 1,
                                         .delta = delta.data(),
                                         .b = bc.data() + 3,
                                         .c = bc.data() + 3 + states,
                                         .bc_stride = stride,
                                         .a = a.data(),
                                         .d = d.data(),
                                         .out = out,
                                         .segments = segments,
                                         .state = view,
                                         .num_channels = channels,
                                         .num_states = states};
        stream != nullptr ? selective_scan(*stream, params) : ref::selective_scan(params);
      };
      check_op(op, kTolerance);
      check_unkept(op);
    }
  }
}

TEST(State, SsdScanMatchesReference) {
  struct Shape {
    int32_t heads, groups;
    int64_t dim, states;
  };
  for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{4, 2, 8, 5}, Shape{3, 3, 33, 16},
                             Shape{4, 1, 48, 20}, Shape{2, 1, 64, 128}}) {
    const int64_t width = shape.heads * shape.dim;
    const int64_t stride = width + 2 * shape.groups * shape.states + 1;
    const auto x = random_floats(1, num_tokens() * stride);
    const auto d = random_floats(2, shape.heads);
    auto delta = random_floats(3, num_tokens() * shape.heads);
    auto decay = random_floats(4, num_tokens() * shape.heads);
    for (float& one : delta) one = std::abs(one);
    for (float& one : decay) one = std::abs(one);
    StateOp op{.width = width,
               .state_floats = ssd_scan_state_floats(shape.heads, shape.dim, shape.states)};
    op.run = [&](Stream* stream, const StateSegments& segments, StateView view, float* out) {
      const SsdScanParams params{.x = x.data(),
                                 .b = x.data() + width,
                                 .c = x.data() + width + shape.groups * shape.states,
                                 .x_stride = stride,
                                 .delta = delta.data(),
                                 .decay = decay.data(),
                                 .d = d.data(),
                                 .out = out,
                                 .segments = segments,
                                 .state = view,
                                 .num_heads = shape.heads,
                                 .num_groups = shape.groups,
                                 .head_dim = shape.dim,
                                 .num_states = shape.states};
      stream != nullptr ? ssd_scan(*stream, params) : ref::ssd_scan(params);
    };
    check_op(op, 2 * kTolerance);
    check_unkept(op);
  }
}

TEST(State, DeltaRuleMatchesReference) {
  struct Shape {
    int32_t heads, key_heads;
    int64_t key_dim, value_dim;
  };
  for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{4, 2, 8, 8}, Shape{2, 2, 20, 33},
                             Shape{6, 2, 17, 48}, Shape{2, 1, 128, 128}}) {
    for (const bool channels : {false, true}) {
      const int64_t keys = shape.key_heads * shape.key_dim;
      const int64_t width = shape.heads * shape.value_dim;
      const int64_t stride = 2 * keys + width + 5;
      // Keys of about unit length, as models have them.
      const float scale = 1.0f / std::sqrt(static_cast<float>(shape.key_dim));
      auto qkv = random_floats(1, num_tokens() * stride);
      for (int64_t i = 0; i < std::ssize(qkv); ++i) qkv[i] *= i % stride < 2 * keys ? scale : 1.0f;
      auto beta = random_floats(2, num_tokens() * shape.heads);
      auto decay = random_floats(3, num_tokens() * shape.heads * (channels ? shape.key_dim : 1));
      for (float& one : beta) one = std::abs(one);
      for (float& one : decay) one = std::abs(one);
      StateOp op{
          .width = width,
          .state_floats = delta_rule_state_floats(shape.heads, shape.key_dim, shape.value_dim)};
      op.run = [&](Stream* stream, const StateSegments& segments, StateView view, float* out) {
        const DeltaRuleParams params{.q = qkv.data(),
                                     .k = qkv.data() + keys,
                                     .v = qkv.data() + 2 * keys,
                                     .qkv_stride = stride,
                                     .decay = decay.data(),
                                     .has_channel_decay = channels,
                                     .beta = beta.data(),
                                     .out = out,
                                     .segments = segments,
                                     .state = view,
                                     .num_heads = shape.heads,
                                     .num_key_heads = shape.key_heads,
                                     .tiled_heads = shape.heads == 6,
                                     .key_dim = shape.key_dim,
                                     .value_dim = shape.value_dim};
        stream != nullptr ? delta_rule(*stream, params) : ref::delta_rule(params);
      };
      check_op(op, kTolerance);
      check_unkept(op);
    }
  }
}

TEST(State, StepGatesMatchReference) {
  for (const Isa isa : isas()) {
    Host host(isa);
    for (const int64_t repeat : {1, 8, 17}) {
      const int64_t size = 3 * repeat;
      const auto x = random_floats(1, 5 * (size + 2), 30.0f);
      const auto bias = random_floats(2, size);
      auto a = random_floats(3, size / repeat, 4.0f);
      for (float& one : a) one = -std::abs(one);
      auto delta = poisoned(5 * size), decay = delta, want_delta = delta, want_decay = delta;
      StepGatesParams params{.x = x.data(),
                             .x_stride = size + 2,
                             .bias = bias.data(),
                             .a = a.data(),
                             .repeat = repeat,
                             .min_delta = 1e-3f,
                             .max_delta = 20.0f,
                             .delta = delta.data(),
                             .decay = decay.data(),
                             .num_tokens = 5,
                             .size = size};
      step_gates(host.stream, params);
      params.delta = want_delta.data();
      params.decay = want_decay.data();
      ref::step_gates(params);
      // exp multiplies the error of its argument, at most 4 * 20 large.
      ASSERT_TRUE(close(delta.data(), want_delta.data(), 5 * size, 4e-6)) << to_string(isa);
      ASSERT_TRUE(close(decay.data(), want_decay.data(), 5 * size, 1e-5)) << to_string(isa);
    }
    const auto x = random_floats(4, 3 * 21, 90.0f);
    auto got = poisoned(3 * 20), want = got;
    SigmoidParams params{
        .x = x.data(), .x_stride = 21, .out = got.data(), .num_tokens = 3, .size = 20};
    sigmoid(host.stream, params);
    params.out = want.data();
    ref::sigmoid(params);
    ASSERT_TRUE(close(got.data(), want.data(), 3 * 20, 1e-6)) << to_string(isa);
  }
}

TEST(State, GatedNormMatchesReference) {
  for (const Isa isa : isas()) {
    Host host(isa);
    for (const int64_t group : {1, 16, 23, 128}) {
      for (int variant = 0; variant < 24; ++variant) {
        const int64_t size = 3 * group;
        auto got = random_floats(1, 4 * (size + 1), 2.0f);
        auto want = got;
        const auto gate = random_floats(2, 4 * (size + 3), 3.0f);
        const auto weight = random_floats(3, size, 2.0f);
        GatedNormParams params{.x = got.data(),
                               .x_stride = size + 1,
                               .act = static_cast<Gate>(variant % 3),
                               .gate = gate.data(),
                               .gate_stride = size + 3,
                               .gate_first = variant / 3 % 2 == 1,
                               .normalizes = variant / 6 % 2 == 1,
                               .weight = variant / 12 == 1 ? weight.data() : nullptr,
                               .shared_weight = variant % 2 == 1,
                               .scale = 0.5f,
                               .num_tokens = 4,
                               .size = size,
                               .group_size = group};
        gated_norm(host.stream, params);
        params.x = want.data();
        ref::gated_norm(params);
        ASSERT_TRUE(close(got.data(), want.data(), std::ssize(got), 1e-4)) << to_string(isa);
      }
    }
  }
}

}  // namespace
}  // namespace quire
