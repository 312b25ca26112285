#include "kernels/api/experts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "kernels/api/quant.h"
#include "kernels/testing/linear_test_support.h"
#include "kernels/testing/quant_cases.h"
#include "kernels/testing/quant_test_rows.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using kernel_test::Buffer;
using kernel_test::Host;
using kernel_test::random_floats;

struct Weight {
  Weight(Stream& stream, const WeightSpec& spec, uint64_t seed)
      : memory(packed_weight_bytes(spec)), packed{spec, memory.data()} {
    if (spec.quant.is_quantized()) {
      const kernel_test::QuantSource source(spec, seed);
      dense = source.dense();
      pack_quant_rows(stream, packed, source.rows(0, spec.n));
      if (spec.quant.has_column_order) pack_quant_columns(packed, source.order.data());
      return;
    }
    dense = random_floats(seed, spec.n * spec.k, 0.3f);
    pack_weight_rows(stream, packed,
                     {.rows = dense.data(), .dtype = DType::kF32, .num_rows = spec.n});
  }
  Buffer memory;
  PackedWeight packed;
  std::vector<float> dense;  // as stored; a packed float type rounds it
};

struct Shape {
  int64_t hidden_size;
  int64_t expert_size;
  int32_t num_experts;
  int32_t per_token;
};

struct Case {
  std::string name;
  WeightSpec gate, up, down;  // n and k are set by the shape
  bool is_gated = true;
  bool has_bias = false;
  ExpertActivation activation = {};
};

// All experts of a layer.
struct Layer {
  Layer(Stream& stream, const Shape& shape, const Case& c)
      : shape(shape), activation(c.activation) {
    const auto add = [&](WeightSpec spec, int64_t n, int64_t k, uint64_t seed) {
      spec.n = n;
      spec.k = k;
      return &weights.emplace_back(stream, spec, seed).packed;
    };
    const auto add_bias = [&](int64_t n, uint64_t seed) {
      return c.has_bias ? biases.emplace_back(random_floats(seed, n)).data() : nullptr;
    };
    for (uint64_t e = 0; e < static_cast<uint64_t>(shape.num_experts); ++e) {
      ExpertWeights expert;
      if (c.is_gated) {
        expert.gate = add(c.gate, shape.expert_size, shape.hidden_size, 100 * e + 1);
        expert.gate_bias = add_bias(shape.expert_size, 100 * e + 2);
      }
      expert.up = add(c.up, shape.expert_size, shape.hidden_size, 100 * e + 3);
      expert.up_bias = add_bias(shape.expert_size, 100 * e + 4);
      expert.down = add(c.down, shape.hidden_size, shape.expert_size, 100 * e + 5);
      expert.down_bias = add_bias(shape.hidden_size, 100 * e + 6);
      experts.push_back(expert);
    }
  }
  Shape shape;
  ExpertActivation activation;
  std::deque<Weight> weights;
  std::deque<std::vector<float>> biases;
  std::vector<ExpertWeights> experts;
};

struct Routing {
  // Distinct experts per token; some experts get many tokens, one gets none.
  Routing(const Shape& shape, int64_t num_tokens) {
    for (int64_t t = 0; t < num_tokens; ++t) {
      int32_t id = static_cast<int32_t>(kernel_test::random_word(9, t) %
                                        static_cast<uint32_t>(shape.num_experts));
      for (int32_t j = 0; j < shape.per_token; ++j) {
        ids.push_back(t % 3 == 0 ? j : (id + j) % shape.num_experts);
      }
    }
    weights = random_floats(10, static_cast<int64_t>(ids.size()), 2.0f);
  }
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

RunExpertsParams params_of(const Layer& layer, const float* x, const Routing& routing,
                           int64_t first_token, int64_t num_tokens) {
  return {.x = x + first_token * layer.shape.hidden_size,
          .experts = layer.experts,
          .expert_ids = routing.ids.data() + first_token * layer.shape.per_token,
          .expert_weights = routing.weights.data() + first_token * layer.shape.per_token,
          .experts_per_token = layer.shape.per_token,
          .activation = layer.activation,
          .num_tokens = num_tokens};
}

std::vector<float> run(Stream& stream, RunExpertsParams params, const std::vector<float>* initial) {
  const int64_t count = params.num_tokens * params.experts.front().down->spec.n;
  std::vector<float> out = initial != nullptr ? *initial : kernel_test::poisoned(count);
  Buffer workspace(
      experts_workspace_bytes(stream, params.num_tokens, params.experts, params.experts_per_token));
  params.out = out.data();
  params.accumulate = initial != nullptr;
  params.workspace = workspace.data();
  run_experts(stream, params);
  return out;
}

// Computes one token at a time with linear() and activation(), which run_experts() must equal bit
// for bit.
std::vector<float> run_by_hand(Stream& stream, const RunExpertsParams& params) {
  const int64_t hidden_size = params.experts.front().down->spec.n;
  const int64_t size = params.experts.front().up->spec.n;
  const ExpertActivation& act = params.activation;
  std::vector<float> out;
  for (int64_t t = 0; t < params.num_tokens; ++t) {
    const float* x = params.x + t * hidden_size;
    std::vector<float> sums(static_cast<size_t>(hidden_size), 0.0f);
    for (int64_t pair = t * params.experts_per_token; pair < (t + 1) * params.experts_per_token;
         ++pair) {
      const ExpertWeights& expert = params.experts[static_cast<size_t>(params.expert_ids[pair])];
      auto up = kernel_test::run_linear(stream, *expert.up, x, 1, expert.up_bias, nullptr);
      std::vector<float> in;
      if (expert.gate != nullptr)
        in = kernel_test::run_linear(stream, *expert.gate, x, 1, expert.gate_bias, nullptr);
      for (size_t i = 0; i < up.size() && act.has_clamp; ++i) {
        in[i] = std::min(in[i], act.limit);
        up[i] = std::clamp(up[i], -act.limit, act.limit) + 1.0f;
      }
      in.insert(in.end(), up.begin(), up.end());
      std::vector<float> h(static_cast<size_t>(size));
      activation(stream, {.x = in.data(),
                          .out = h.data(),
                          .activation = act.activation,
                          .gated = expert.gate != nullptr,
                          .num_tokens = 1,
                          .ffn_size = size});
      const auto y =
          kernel_test::run_linear(stream, *expert.down, h.data(), 1, expert.down_bias, nullptr);
      for (size_t i = 0; i < y.size(); ++i) sums[i] += params.expert_weights[pair] * y[i];
    }
    out.insert(out.end(), sums.begin(), sums.end());
  }
  return out;
}

WeightSpec dense(DType dtype, ComputeType compute) { return {.dtype = dtype, .compute = compute}; }
WeightSpec quantized(std::string_view name) {
  for (const kernel_cases::QuantFormat& format : kernel_cases::quant_formats()) {
    if (format.name == name) return {.compute = ComputeType::kBF16, .quant = format.spec};
  }
  ADD_FAILURE() << name;
  return {};
}

std::vector<Case> cases() {
  const auto same = [](std::string name, const WeightSpec& spec) {
    return Case{.name = std::move(name), .gate = spec, .up = spec, .down = spec};
  };
  std::vector<Case> all = {
      same("f32", dense(DType::kF32, ComputeType::kF32)),
      same("bf16", dense(DType::kBF16, ComputeType::kBF16)),
      same("int8", dense(DType::kI8, ComputeType::kInt8)),
      same("mxfp4", quantized("mxfp4")),
      same("awq", quantized("awq int4 g128")),
      same("act-order", quantized("gptq int4 g128 act-order")),
      same("fp8", quantized("fp8 g128")),
  };
  all.push_back({.name = "mixed",
                 .gate = quantized("q4_k"),
                 .up = quantized("q6_k"),
                 .down = dense(DType::kF16, ComputeType::kF32)});
  Case clamped = same("clamped mxfp4 with biases", quantized("mxfp4"));
  clamped.has_bias = true;
  clamped.activation = {.activation = Activation::kQuickGelu, .has_clamp = true, .limit = 0.5f};
  all.push_back(clamped);
  Case plain = same("without a gate", dense(DType::kBF16, ComputeType::kBF16));
  plain.is_gated = false;
  plain.activation.activation = Activation::kRelu2;
  all.push_back(plain);
  return all;
}

constexpr Shape kShapes[] = {{72, 40, 5, 2}, {256, 200, 4, 3}, {33, 1, 1, 1}};

// Covers few rows and many, shared and private packing, and one expert with most of the tokens.
TEST(Experts, EqualTheirProductsOneTokenAtATime) {
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa, 3);
    for (const Case& c : cases()) {
      for (const Shape& shape : kShapes) {
        const Layer layer(host.stream, shape, c);
        for (const int64_t tokens : {1, 2, 3, 19, 131}) {
          SCOPED_TRACE(::testing::Message() << to_string(isa) << " " << c.name << " E "
                                            << shape.hidden_size << " tokens " << tokens);
          const auto x = random_floats(7, tokens * shape.hidden_size);
          const Routing routing(shape, tokens);
          const auto params = params_of(layer, x.data(), routing, 0, tokens);
          const auto want = run_by_hand(host.stream, params);
          const auto got = run(host.stream, params, nullptr);
          ASSERT_TRUE(
              kernel_test::same_bits(got.data(), want.data(), static_cast<int64_t>(want.size())));
        }
      }
    }
  }
}

TEST(Experts, MatchTheReference) {
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    Case c{.name = "", .has_bias = true};
    c.gate = c.up = c.down = dense(DType::kF32, ComputeType::kF32);
    for (const bool has_clamp : {false, true}) {
      c.activation = {.activation = Activation::kQuickGelu, .has_clamp = has_clamp, .limit = 0.7f};
      const Shape shape{48, 24, 6, 3};
      const Layer layer(host.stream, shape, c);
      std::vector<ref::DenseExpert> matrices;
      for (size_t e = 0; e < layer.experts.size(); ++e) {
        matrices.push_back({layer.weights[3 * e].dense.data(),
                            layer.weights[3 * e + 1].dense.data(),
                            layer.weights[3 * e + 2].dense.data()});
      }
      const int64_t tokens = 23;
      const auto x = random_floats(7, tokens * shape.hidden_size);
      const Routing routing(shape, tokens);
      auto params = params_of(layer, x.data(), routing, 0, tokens);
      const auto initial = random_floats(8, tokens * shape.hidden_size);
      const auto got = run(host.stream, params, &initial);
      auto want = initial;
      params.out = want.data();
      params.accumulate = true;
      ref::run_experts(params, matrices);
      EXPECT_TRUE(
          kernel_test::close(got.data(), want.data(), static_cast<int64_t>(want.size()), 2e-5))
          << to_string(isa) << " clamp " << has_clamp;
    }
  }
}

// Several ranks have some experts each, and sum the rows of all as one rank alone does. Here they
// run one after the other, so the first round writes the rows and the second one reads them.
TEST(Experts, SpreadOverSeveralGiveTheBitsOfOne) {
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa, 3);
    for (const Case& c : cases()) {
      const Shape shape{72, 40, 5, 2};
      const Layer layer(host.stream, shape, c);
      for (const int64_t tokens : {1, 3, 131}) {
        const auto x = random_floats(7, tokens * shape.hidden_size);
        const Routing routing(shape, tokens);
        auto params = params_of(layer, x.data(), routing, 0, tokens);
        const auto initial = random_floats(8, tokens * shape.hidden_size);
        const auto want = run(host.stream, params, &initial);
        auto rows = kernel_test::poisoned(tokens * shape.per_token * shape.hidden_size);
        for (int round = 0; round < 2; ++round) {
          for (const auto& own : {std::pair{0, 1}, {1, 4}, {4, 5}}) {
            SCOPED_TRACE(::testing::Message() << to_string(isa) << " " << c.name << " tokens "
                                              << tokens << " experts from " << own.first);
            std::vector<ExpertWeights> experts = layer.experts;
            for (int32_t e = 0; e < shape.num_experts; ++e) {
              if (e < own.first || e >= own.second) experts[static_cast<size_t>(e)] = {};
            }
            int64_t num_rows = 0;
            // In the second round each rank sums some columns and leaves the others.
            const int64_t first_column = round == 0 ? 0 : own.first * 16;
            const int64_t end_column = own.second == 5 ? shape.hidden_size : own.second * 16;
            const ExpertsSpread spread{.first = own.first,
                                       .end = own.second,
                                       .outputs = rows.data(),
                                       .first_column = first_column,
                                       .end_column = end_column,
                                       .gather =
                                           [](void* seen, std::span<const int32_t> first) {
                                             *static_cast<int64_t*>(seen) = first.back();
                                           },
                                       .context = &num_rows};
            params.experts = experts;
            params.spread = &spread;
            Buffer workspace(
                experts_workspace_bytes(host.stream, tokens, experts, shape.per_token));
            std::vector<float> out = initial;
            params.out = out.data();
            params.accumulate = true;
            params.workspace = workspace.data();
            run_experts(host.stream, params);
            EXPECT_EQ(num_rows, tokens * shape.per_token);
            if (round == 0) continue;
            for (int64_t i = 0; i < static_cast<int64_t>(out.size()); ++i) {
              const int64_t column = i % shape.hidden_size;
              const bool is_summed = column >= first_column && column < end_column;
              const auto& expected = is_summed ? want : initial;
              ASSERT_TRUE(kernel_test::same_bits(&out[static_cast<size_t>(i)],
                                                 &expected[static_cast<size_t>(i)], 1));
            }
          }
        }
      }
    }
  }
}

// Law L4: the bits of a token do not depend on how tokens are cut into calls, nor on the threads.
TEST(Experts, ATokenDoesNotDependOnItsNeighbours) {
  const Shape shape{160, 96, 7, 2};
  for (const Isa isa : kernel_test::isas()) {
    for (const Case& c : cases()) {
      std::vector<float> first;
      for (const int threads : {1, 2, 5}) {
        Host host(isa, threads);
        const Layer layer(host.stream, shape, c);
        const int64_t tokens = 77;
        const auto x = random_floats(7, tokens * shape.hidden_size);
        const Routing routing(shape, tokens);
        const auto all = run(host.stream, params_of(layer, x.data(), routing, 0, tokens), nullptr);
        if (first.empty()) first = all;
        ASSERT_TRUE(
            kernel_test::same_bits(all.data(), first.data(), static_cast<int64_t>(all.size())))
            << to_string(isa) << " " << c.name << " threads " << threads;
        for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{0, 1}, {5, 3}, {40, 37}}) {
          const auto some =
              run(host.stream, params_of(layer, x.data(), routing, begin, count), nullptr);
          ASSERT_TRUE(kernel_test::same_bits(some.data(), all.data() + begin * shape.hidden_size,
                                             count * shape.hidden_size))
              << to_string(isa) << " " << c.name << " tokens from " << begin;
        }
      }
    }
  }
}

TEST(Experts, SigmoidScalesWholeRows) {
  Host host(Isa::kPortable, 3);
  const int64_t rows = 37, size = 1001;
  const auto x = random_floats(1, rows * size);
  const auto logits = random_floats(2, rows, 6.0f);
  std::vector<float> got(x.size());
  sigmoid_scale(host.stream, {.x = x.data(),
                              .out = got.data(),
                              .logits = logits.data(),
                              .num_rows = rows,
                              .row_size = size});
  for (int64_t i = 0; i < rows * size; ++i) {
    const double want = x[i] / (1.0 + std::exp(-double{logits[i / size]}));
    ASSERT_NEAR(got[i], want, 1e-6) << "row " << i / size;
  }
}

// Low-rank updates of some matrices of a layer's experts, and these matrices merged with the
// updates.
struct Adapter {
  Adapter(const Layer& layer, int64_t rank, uint64_t seed) {
    const Shape& shape = layer.shape;
    for (size_t e = 0; e < layer.experts.size(); ++e) {
      const auto add = [&](size_t matrix, int64_t n, int64_t k,
                           bool is_changed) -> const LoraPart* {
        std::vector<float>& whole = dense.emplace_back(layer.weights[3 * e + matrix].dense);
        if (!is_changed) return nullptr;
        const float* const a = floats.emplace_back(random_floats(++seed, rank * k, 0.3f)).data();
        const float* const b = floats.emplace_back(random_floats(++seed, n * rank, 0.3f)).data();
        Buffer& packed = buffers.emplace_back(lora_b_elements(n, rank) * 4);
        pack_lora_b(b, n, rank, 4, packed.data());
        for (int64_t i = 0; i < n * k; ++i) {
          for (int64_t r = 0; r < rank; ++r)
            whole[static_cast<size_t>(i)] += 0.5f * b[i / k * rank + r] * a[r * k + i % k];
        }
        return &parts.emplace_back(
            LoraPart{.num_outputs = n, .rank = rank, .a = a, .b = packed.data(), .scale = 0.5f});
      };
      const int64_t inside = shape.expert_size, hidden = shape.hidden_size;
      ExpertUpdate update;
      update.gate = add(0, inside, hidden, e % 5 != 4);
      update.up = add(1, inside, hidden, e % 3 != 1);
      update.down = add(2, hidden, inside, e % 4 != 2);
      updates.push_back(update);
    }
    for (size_t e = 0; e < layer.experts.size(); ++e)
      matrices.push_back({dense[3 * e].data(), dense[3 * e + 1].data(), dense[3 * e + 2].data()});
  }
  std::deque<std::vector<float>> dense, floats;
  std::deque<Buffer> buffers;
  std::deque<LoraPart> parts;
  std::vector<ExpertUpdate> updates;  // by expert
  std::vector<ref::DenseExpert> matrices;
};

// One call has tokens of two adapters and of none. Each token is close to the result of merged
// matrices and has the bits that it has alone; a token without an adapter has those of a call
// without adapters.
TEST(Experts, AddUpdatesOfAdapters) {
  constexpr int64_t kMaxRank = 5;
  Case c{.name = "", .has_bias = true};
  c.gate = c.up = c.down = dense(DType::kF32, ComputeType::kF32);
  c.activation = {.activation = Activation::kQuickGelu, .has_clamp = true, .limit = 0.7f};
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa, 3), one_thread(isa);
    for (const Shape& shape : {Shape{48, 24, 6, 3}, Shape{67, 200, 5, 2}}) {
      const Layer layer(host.stream, shape, c);
      const std::deque<Adapter> adapters = [&] {
        std::deque<Adapter> made;
        made.emplace_back(layer, kMaxRank, 1000);
        made.emplace_back(layer, 2, 2000);
        return made;
      }();
      const std::span<const ExpertUpdate> by_adapter[] = {adapters[0].updates, adapters[1].updates};
      for (const int64_t tokens : {1, 2, 23, 90}) {
        SCOPED_TRACE(::testing::Message() << to_string(isa) << " tokens " << tokens);
        const auto x = random_floats(7, tokens * shape.hidden_size);
        const Routing routing(shape, tokens);
        std::vector<int32_t> adapter_of;
        for (int64_t t = 0; t < tokens; ++t) adapter_of.push_back(static_cast<int32_t>(t % 3) - 1);
        Buffer workspace(
            expert_updates_bytes(tokens * shape.per_token, shape.num_experts, kMaxRank));
        ExpertUpdates updates{.adapter_of = adapter_of.data(),
                              .adapters = by_adapter,
                              .dtype = DType::kF32,
                              .max_rank = kMaxRank,
                              .workspace = workspace.data()};
        auto params = params_of(layer, x.data(), routing, 0, tokens);
        const auto without = run(host.stream, params, nullptr);
        params.updates = &updates;
        const auto got = run(host.stream, params, nullptr);
        for (int64_t t = 0; t < tokens; ++t) {
          auto alone = params_of(layer, x.data(), routing, t, 1);
          ExpertUpdates own = updates;
          own.adapter_of += t;
          alone.updates = &own;
          const float* const row = got.data() + t * shape.hidden_size;
          ASSERT_TRUE(kernel_test::same_bits(row, run(one_thread.stream, alone, nullptr).data(),
                                             shape.hidden_size));
          if (adapter_of[static_cast<size_t>(t)] < 0) {
            ASSERT_TRUE(kernel_test::same_bits(row, without.data() + t * shape.hidden_size,
                                               shape.hidden_size));
            continue;
          }
          std::vector<float> want(static_cast<size_t>(shape.hidden_size));
          alone.updates = nullptr;
          alone.out = want.data();
          ref::run_experts(
              alone, adapters[static_cast<size_t>(adapter_of[static_cast<size_t>(t)])].matrices);
          EXPECT_TRUE(kernel_test::close(row, want.data(), shape.hidden_size, 5e-5)) << t;
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire
