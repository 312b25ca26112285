// Compares routing and routed experts on a GPU with float64. Tiles of every size compute the same
// bits.
#include "kernels/api/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <vector>

#include "kernels/api/router.h"
#include "kernels/cuda/experts/expert_tiles.h"
#include "kernels/cuda/quant/quant_weight.h"
#include "kernels/cuda/test/test_device.h"
#include "kernels/quant_rows.h"
#include "kernels/testing/quant_cases.h"
#include "kernels/testing/quant_test_rows.h"
#include "kernels/testing/router_cases.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using gpu_test::rounded;
using kernel_test::QuantSource;
using kernel_test::random_floats;

struct Shape {
  int64_t hidden_size;
  int64_t inside_size;
  int32_t num_experts;
  int32_t per_token;
  int64_t num_tokens;
  bool one_expert = false;  // all tokens go to the same ones
};

struct Kind {
  bool is_gated = true;
  bool has_bias = false;
  ExpertActivation activation = {};
  bool accumulate = false;
  DType out = DType::kF32;
  QuantSpec quant = {};  // in the checkpoint; `down_quant` is for outputs
  QuantSpec down_quant = {};
};

struct Matrix {
  std::vector<float> values;  // [X, N, K] or [X, N]
  const std::byte* on_device = nullptr;
  WeightSpec spec = {};  // of one expert's matrix
  int64_t expert_bytes = 0;
};

// Returns the form in which a GPU packs it, which may be simplified. Not quantized: it is not
// supported.
QuantSpec packed_quant(const QuantSpec& stored) {
  for (const QuantSpec& quant : {stored, simpler_quant(stored)})
    if (cuda::check_quant_weight({.n = 16, .k = 1024, .quant = quant}).ok()) return quant;
  return {};
}

class GpuExperts : public gpu_test::GpuTest {
 protected:
  // All experts of a layer, on the device and as numbers.
  struct Layer {
    Shape shape;
    Kind kind;
    Matrix gate, up, down, gate_bias, up_bias, down_bias;
    std::vector<PackedWeight> weights;  // three per expert
    std::vector<ExpertWeights> experts;
    std::vector<ref::DenseExpert> dense;
    std::vector<ExpertWeights> host_experts;  // with biases in host memory
  };

  Layer make_layer(const Shape& shape, const Kind& kind) {
    Layer layer{.shape = shape, .kind = kind};
    const int64_t x = shape.num_experts, e = shape.hidden_size, i = shape.inside_size;
    const auto matrix = [&](uint64_t seed, int64_t n, int64_t k, const QuantSpec& quant) {
      if (quant.is_quantized()) return make_quantized(seed, x, {.n = n, .k = k, .quant = quant});
      Matrix m{rounded(random_floats(seed, x * n * k, 0.3f))};
      m.on_device = static_cast<const std::byte*>(upload_as(DType::kBF16, m.values).data());
      m.spec = {.n = n, .k = k, .compute = ComputeType::kBF16};
      m.expert_bytes = n * k * 2;
      return m;
    };
    const auto bias = [&](uint64_t seed, int64_t size) {
      Matrix m{random_floats(seed, x * size)};
      m.on_device = reinterpret_cast<const std::byte*>(upload(m.values));
      return m;
    };
    layer.gate = matrix(1, i, e, kind.quant);
    layer.up = matrix(2, i, e, kind.quant);
    layer.down = matrix(3, e, i, kind.down_quant);
    layer.gate_bias = bias(4, i);
    layer.up_bias = bias(5, i);
    layer.down_bias = bias(6, e);
    layer.weights.reserve(static_cast<size_t>(3 * x));
    for (int64_t id = 0; id < x; ++id) add_expert(layer, id);
    return layer;
  }

  // `stored` is the spec of one of `num_experts` experts.
  Matrix make_quantized(uint64_t seed, int64_t num_experts, const WeightSpec& stored) {
    WeightSpec all = stored;
    all.n *= num_experts;
    const QuantSource source(all, seed);
    Matrix m{.values = source.dense(), .spec = stored};
    m.spec.compute = ComputeType::kBF16;
    m.spec.quant = packed_quant(stored.quant);
    m.expert_bytes = cuda::quant_weight_layout(m.spec).num_bytes;
    std::vector<uint8_t> host(static_cast<size_t>(num_experts * m.expert_bytes), 0);
    SimplerRows simpler(stored.quant, stored.k);
    for (int64_t id = 0; id < num_experts; ++id) {
      QuantRows rows = source.rows(id * stored.n, (id + 1) * stored.n);
      if (m.spec.quant != stored.quant) rows = simpler.of(rows);
      rows.first_row = 0;
      cuda::pack_quant_weight({m.spec, host.data() + id * m.expert_bytes}, rows);
    }
    m.on_device = reinterpret_cast<const std::byte*>(upload(host));
    return m;
  }

  static void add_expert(Layer& layer, int64_t id) {
    const int64_t e = layer.shape.hidden_size, i = layer.shape.inside_size;
    const auto weight = [&](const Matrix& m) {
      layer.weights.push_back({m.spec, const_cast<std::byte*>(m.on_device + id * m.expert_bytes)});
      return &layer.weights.back();
    };
    ExpertWeights expert{.up = weight(layer.up), .down = weight(layer.down)};
    if (layer.kind.is_gated) expert.gate = weight(layer.gate);
    ExpertWeights on_host = expert;
    if (layer.kind.has_bias) {
      const auto set = [&](const float* ExpertWeights::*part, const Matrix& m, int64_t n) {
        expert.*part = reinterpret_cast<const float*>(m.on_device) + id * n;
        on_host.*part = m.values.data() + id * n;
      };
      if (layer.kind.is_gated) set(&ExpertWeights::gate_bias, layer.gate_bias, i);
      set(&ExpertWeights::up_bias, layer.up_bias, i);
      set(&ExpertWeights::down_bias, layer.down_bias, e);
    }
    layer.experts.push_back(expert);
    layer.host_experts.push_back(on_host);
    layer.dense.push_back({.gate = layer.gate.values.data() + id * i * e,
                           .up = layer.up.values.data() + id * i * e,
                           .down = layer.down.values.data() + id * i * e});
  }

  // Returns different experts for each token.
  static std::vector<int32_t> choices(const Shape& shape) {
    std::vector<int32_t> ids;
    for (int64_t t = 0; t < shape.num_tokens; ++t) {
      const auto first =
          static_cast<int32_t>(shape.one_expert ? shape.num_experts - 1
                                                : kernel_test::random_word(9, t) %
                                                      static_cast<uint32_t>(shape.num_experts));
      for (int32_t j = 0; j < shape.per_token; ++j) ids.push_back((first + j) % shape.num_experts);
    }
    return ids;
  }

  struct Inputs {
    std::vector<float> x, before, weights;
    std::vector<int32_t> ids;
  };
  static Inputs inputs_of(const Shape& shape) {
    return {.x = rounded(random_floats(7, shape.num_tokens * shape.hidden_size)),
            .before = rounded(random_floats(8, shape.num_tokens * shape.hidden_size)),
            .weights = random_floats(10, shape.num_tokens * shape.per_token, 2.0f),
            .ids = choices(shape)};
  }

  // Runs tokens [first, first + count) of the inputs.
  std::vector<float> run(const Layer& layer, const Inputs& inputs, int64_t first, int64_t count) {
    const int64_t e = layer.shape.hidden_size, k = layer.shape.per_token;
    const auto part = [&](const auto& all, int64_t size) {
      return std::vector(all.begin() + first * size, all.begin() + (first + count) * size);
    };
    RunExpertsParams p{.x = upload_as(DType::kBF16, part(inputs.x, e)),
                       .experts = layer.experts,
                       .expert_ids = upload(part(inputs.ids, k)),
                       .expert_weights = upload(part(inputs.weights, k)),
                       .experts_per_token = layer.shape.per_token,
                       .activation = layer.kind.activation,
                       .out = upload_as(layer.kind.out, part(inputs.before, e)),
                       .accumulate = layer.kind.accumulate,
                       .num_tokens = count};
    p.workspace =
        poisoned(experts_workspace_bytes(stream(), count, layer.experts, layer.shape.per_token));
    run_experts(stream(), p);
    return download_floats(p.out, count * e);
  }

  void expect_reference(const Shape& shape, const Kind& kind) {
    SCOPED_TRACE(::testing::Message()
                 << shape.num_tokens << " tokens, " << shape.per_token << " of "
                 << shape.num_experts << " experts [" << shape.inside_size << ", "
                 << shape.hidden_size << "], gated " << kind.is_gated << ", bias "
                 << kind.has_bias);
    const Layer layer = make_layer(shape, kind);
    const Inputs inputs = inputs_of(shape);
    const auto got = run(layer, inputs, 0, shape.num_tokens);
    std::vector<float> want = inputs.before;
    ref::run_experts({.x = inputs.x.data(),
                      .experts = layer.host_experts,
                      .expert_ids = inputs.ids.data(),
                      .expert_weights = inputs.weights.data(),
                      .experts_per_token = shape.per_token,
                      .activation = kind.activation,
                      .out = want.data(),
                      .accumulate = kind.accumulate,
                      .num_tokens = shape.num_tokens},
                     layer.dense);
    // The inside is rounded to bf16, and so may be the result.
    float largest = 0.0f;
    for (const float value : want) largest = std::max(largest, std::abs(value));
    ASSERT_TRUE(kernel_test::close(got.data(), want.data(), static_cast<int64_t>(want.size()),
                                   double{largest} * 0x1p-7));
  }

  // Law L4: a single token is in a tile of eight rows, and in larger tiles among others. `shape`
  // has 120 tokens, each of which goes to two of four experts.
  void expect_bits_of_tokens_alone(const Shape& shape, const QuantSpec& quant = {}) {
    const Layer layer = make_layer(
        shape, {.has_bias = true, .accumulate = true, .quant = quant, .down_quant = quant});
    const Inputs inputs = inputs_of(shape);
    const auto all = run(layer, inputs, 0, shape.num_tokens);
    std::set<int> tiles{cuda::expert_tile_rows(240, 4)};
    const struct {
      int64_t first, count;
    } parts[] = {{0, 1}, {60, 2}, {119, 1}, {50, 10}, {31, 20}, {20, 97}};
    for (const auto& [first, count] : parts) {
      tiles.insert(cuda::expert_tile_rows(count * 2, 4));
      const auto got = run(layer, inputs, first, count);
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(got[i], all[static_cast<size_t>(first * shape.hidden_size) + i])
            << "tokens from " << first << ", " << count << ", at " << i;
    }
    EXPECT_EQ(tiles.size(), 4u);
  }
};

const QuantSpec& format(std::string_view name) {
  for (const kernel_cases::QuantFormat& format : kernel_cases::quant_formats())
    if (name == format.name) return format.spec;
  ADD_FAILURE() << name;
  static const QuantSpec kNone;
  return kNone;
}

constexpr Shape kShapes[] = {
    {8, 8, 1, 1, 1},     {40, 24, 60, 8, 1},        {72, 40, 60, 4, 33},
    {104, 56, 5, 2, 17}, {72, 136, 3, 2, 40},       {136, 72, 1, 1, 70},
    {200, 72, 2, 2, 70}, {72, 40, 60, 1, 70, true}, {40, 88, 4, 2, 30, true}};

TEST_F(GpuExperts, MatchReference) {
  for (const Shape& shape : kShapes) {
    expect_reference(shape, {});
    expect_reference(shape, {.has_bias = true, .accumulate = true});
  }
}

TEST_F(GpuExperts, MatchReferenceWithEveryActivation) {
  for (const Shape& shape : {kShapes[2], kShapes[4]}) {
    expect_reference(
        shape,
        {.has_bias = true,
         .activation = {.activation = Activation::kQuickGelu, .has_clamp = true, .limit = 0.7f},
         .out = DType::kBF16});
    expect_reference(shape, {.is_gated = false, .activation = {.activation = Activation::kRelu2}});
    expect_reference(shape, {.is_gated = false,
                             .has_bias = true,
                             .activation = {.activation = Activation::kGeluTanh},
                             .accumulate = true});
  }
}

TEST_F(GpuExperts, BitsDoNotDependOnTheCrowd) { expect_bits_of_tokens_alone({136, 72, 4, 2, 120}); }

// Tiles of 8, 16 and more rows; widths that end inside a chunk, a tile and a group.
TEST_F(GpuExperts, MatchReferenceForEveryFormat) {
  int num_formats = 0;
  for (const kernel_cases::QuantFormat& format : kernel_cases::quant_formats()) {
    const QuantSpec& quant = format.spec;
    if (!packed_quant(quant).is_quantized() || quant.has_column_order) continue;
    SCOPED_TRACE(format.name);
    ++num_formats;
    const Kind kind{.has_bias = true, .accumulate = true, .quant = quant, .down_quant = quant};
    expect_reference({72, 40, 9, 3, 5}, kind);
    expect_reference({136, 88, 3, 2, 9}, kind);
    expect_reference({328, 24, 2, 2, 37}, kind);
  }
  EXPECT_GE(num_formats, 15);
}

TEST_F(GpuExperts, MatchReferenceOfQuantizedWeightsWithEveryActivation) {
  const QuantSpec int4 = format("awq int4 g128");
  const Shape& shape = kShapes[3];
  expect_reference(
      shape,
      {.has_bias = true,
       .activation = {.activation = Activation::kQuickGelu, .has_clamp = true, .limit = 0.7f},
       .out = DType::kBF16,
       .quant = int4,
       .down_quant = int4});
  expect_reference(shape, {.is_gated = false,
                           .activation = {.activation = Activation::kRelu2},
                           .quant = int4,
                           .down_quant = int4});
  // Only one of the two stages is quantized.
  expect_reference(kShapes[4], {.quant = int4});
  expect_reference(kShapes[4], {.down_quant = int4});
}

TEST_F(GpuExperts, BitsOfQuantizedWeightsDoNotDependOnTheCrowd) {
  for (const char* name : {"awq int4 g128", "int4 g96 f32", "mxfp4", "fp8 g128", "q4_k"}) {
    SCOPED_TRACE(name);
    expect_bits_of_tokens_alone({136, 72, 4, 2, 120}, format(name));
  }
}

// Tiles of 64 and 128 rows, which use warpgroup products.
class GpuExpertsOnHopper : public GpuExperts {
 protected:
  void SetUp() override { open_hopper(); }
};

// Tiles of one and two warpgroups that are not full, several columns of blocks, numbers of outputs
// and inputs that do not fill tiles, and more inputs than the ring holds.
TEST_F(GpuExpertsOnHopper, MatchReference) {
  constexpr Shape kManyRows[] = {
      {72, 136, 3, 2, 40}, {40, 264, 1, 1, 130}, {392, 16, 2, 2, 70}, {40, 88, 4, 2, 40, true}};
  for (const Shape& shape : kManyRows) {
    expect_reference(shape, {.has_bias = true, .accumulate = true});
    expect_reference(shape, {.is_gated = false, .activation = {.activation = Activation::kRelu2}});
  }
}

// Warpgroup products add in the same order as other kernels.
TEST_F(GpuExpertsOnHopper, BitsDoNotDependOnTheCrowd) {
  expect_bits_of_tokens_alone({136, 72, 4, 2, 120});
  if (device_->stream().emulated() == nullptr) expect_bits_of_tokens_alone({2048, 768, 4, 2, 120});
}

TEST_F(GpuExpertsOnHopper, MatchReferenceOfQuantizedWeights) {
  for (const char* name : {"awq int4 g128", "mxfp4", "fp8 g128", "int8 per channel"}) {
    SCOPED_TRACE(name);
    const QuantSpec& quant = format(name);
    expect_reference({72, 136, 3, 2, 80},
                     {.has_bias = true, .accumulate = true, .quant = quant, .down_quant = quant});
    expect_reference({328, 88, 1, 1, 130}, {.quant = quant, .down_quant = quant});
    expect_reference({40, 264, 2, 2, 60}, {.is_gated = false,
                                           .activation = {.activation = Activation::kRelu2},
                                           .quant = quant,
                                           .down_quant = quant});
  }
  // Only one of the two stages is quantized, or with minima, which use other tiles.
  const QuantSpec& int4 = format("int4 g128");
  expect_reference({72, 136, 3, 2, 80}, {.quant = int4});
  expect_reference({72, 136, 3, 2, 80}, {.down_quant = int4});
  expect_reference({72, 136, 3, 2, 80}, {.quant = int4, .down_quant = format("q4_1")});
  expect_reference({72, 136, 3, 2, 80}, {.quant = format("q4_1"), .down_quant = int4});
}

TEST_F(GpuExpertsOnHopper, BitsOfQuantizedWeightsDoNotDependOnTheCrowd) {
  for (const char* name :
       {"awq int4 g128", "int4 g96 f32", "mxfp4", "fp8 g128", "int8 per channel"}) {
    SCOPED_TRACE(name);
    expect_bits_of_tokens_alone({136, 72, 4, 2, 120}, format(name));
    if (device_->stream().emulated() == nullptr)
      expect_bits_of_tokens_alone({2048, 768, 4, 2, 120}, format(name));
  }
}

TEST_F(GpuExperts, RoutesAsTheReference) {
  for (const RouterSpec& router : kernel_test::routers()) {
    for (const bool has_bias : {false, true}) {
      if (has_bias && !kernel_test::may_have_bias(router)) continue;
      SCOPED_TRACE(::testing::Message()
                   << router.num_experts << " experts, weight " << static_cast<int>(router.weight)
                   << ", bias " << has_bias);
      constexpr int64_t kTokens = 70;
      const int64_t count = kTokens * router.experts_per_token;
      const auto logits = random_floats(3, kTokens * router.num_experts, 4.0f);
      const auto bias = random_floats(4, router.num_experts, 0.3f);
      RouteTokensParams p{.logits = upload(logits),
                          .bias = has_bias ? upload(bias) : nullptr,
                          .router = router,
                          .expert_ids = static_cast<int32_t*>(poisoned(count * 4)),
                          .expert_weights = static_cast<float*>(poisoned(count * 4)),
                          .num_tokens = kTokens};
      route_tokens(stream(), p);
      const auto ids = download<int32_t>(p.expert_ids, count);
      const auto weights = download<float>(p.expert_weights, count);
      std::vector<int32_t> want_ids(static_cast<size_t>(count));
      std::vector<float> want(static_cast<size_t>(count));
      p.logits = logits.data();
      p.bias = has_bias ? bias.data() : nullptr;
      p.expert_ids = want_ids.data();
      p.expert_weights = want.data();
      ref::route_tokens(p);
      EXPECT_EQ(ids, want_ids);
      EXPECT_TRUE(kernel_test::close(weights.data(), want.data(), count, 2e-6 * router.scale));
    }
  }
}

// Experts with scales of their own, and a single expert whose logit scales its input instead.
TEST_F(GpuExperts, ScalesExpertsAndHandsTheLogitOn) {
  constexpr int64_t kTokens = 5;
  constexpr int32_t kExperts = 40;
  const auto logits = random_floats(3, kTokens * kExperts, 4.0f);
  const auto scale = random_floats(4, kExperts, 2.0f);
  for (const bool hands_on : {false, true}) {
    const int32_t k = hands_on ? 1 : 3;
    RouteTokensParams p{
        .logits = upload(logits),
        .router = {.num_experts = kExperts,
                   .experts_per_token = k,
                   .weight = hands_on ? RouterWeight::kLogit : RouterWeight::kNormalized},
        .expert_ids = static_cast<int32_t*>(poisoned(kTokens * k * 4)),
        .expert_weights = static_cast<float*>(poisoned(kTokens * k * 4)),
        .expert_scale = hands_on ? nullptr : upload(scale),
        .chosen_logits = hands_on ? static_cast<float*>(poisoned(kTokens * 4)) : nullptr,
        .num_tokens = kTokens};
    route_tokens(stream(), p);
    const auto weights = download<float>(p.expert_weights, kTokens * k);
    std::vector<float> chosen(kTokens), want_chosen(kTokens), want(weights.size());
    if (hands_on) chosen = download<float>(p.chosen_logits, kTokens);
    std::vector<int32_t> ids(weights.size());
    p.logits = logits.data();
    p.expert_ids = ids.data();
    p.expert_weights = want.data();
    if (hands_on) p.chosen_logits = want_chosen.data();
    if (!hands_on) p.expert_scale = scale.data();
    ref::route_tokens(p);
    EXPECT_TRUE(kernel_test::close(weights.data(), want.data(), kTokens * k, 4e-6));
    EXPECT_EQ(chosen, want_chosen);
  }
}

// Logits that are equal, or all NaN; the chosen expert must exist.
TEST_F(GpuExperts, RoutesTiesToTheLowestIdAndNaNToSomeExpert) {
  std::vector<float> logits = {1.0f, 2.0f, 2.0f, 1.0f, -0.0f, 0.0f, -1.0f, -1.0f};
  logits.resize(16, kernel_test::kNaN);
  RouteTokensParams p{.logits = upload(logits),
                      .router = {.num_experts = 4, .experts_per_token = 3},
                      .expert_ids = static_cast<int32_t*>(poisoned(48)),
                      .expert_weights = static_cast<float*>(poisoned(48)),
                      .num_tokens = 4};
  p.router.weight = RouterWeight::kLogit;
  route_tokens(stream(), p);
  const auto ids = download<int32_t>(p.expert_ids, 12);
  EXPECT_EQ(std::vector(ids.begin(), ids.begin() + 6), (std::vector<int32_t>{1, 2, 0, 0, 1, 2}));
  for (const int32_t id : ids) EXPECT_TRUE(id >= 0 && id < 4) << id;
}

TEST_F(GpuExperts, ScalesBySigmoid) {
  constexpr int64_t kRows = 5, kSize = 37;
  const auto x = rounded(random_floats(1, kRows * kSize));
  const auto logits = random_floats(2, kRows, 3.0f);
  const Activations inout = upload_as(DType::kBF16, x);
  sigmoid_scale(
      stream(),
      {.x = inout, .out = inout, .logits = upload(logits), .num_rows = kRows, .row_size = kSize});
  const auto got = download_floats(inout, kRows * kSize);
  for (size_t i = 0; i < got.size(); ++i) {
    const double want = x[i] / (1.0 + std::exp(-double{logits[i / kSize]}));
    EXPECT_NEAR(got[i], want, 0x1p-8);
  }
}

TEST(ExpertTiles, BlocksCoverEveryTileAndColumnOnce) {
  for (const int tiles : {1, 7, 8, 21}) {
    for (const int columns : {1, 5, 12}) {
      std::set<std::pair<int, int>> seen;
      const auto count = cuda::num_expert_blocks(tiles, columns);
      for (int i = 0; i < count; ++i) {
        const cuda::ExpertBlock block = cuda::expert_block(i, columns);
        EXPECT_LT(block.column, columns);
        EXPECT_TRUE(seen.emplace(block.tile, block.column).second);
      }
      for (int tile = 0; tile < tiles; ++tile)
        for (int column = 0; column < columns; ++column) EXPECT_TRUE(seen.contains({tile, column}));
    }
  }
}

// For any distribution of pairs, the number of tiles is at most max_expert_tiles().
TEST(ExpertTiles, AreNeverMoreThanTheMost) {
  for (int64_t draw = 0; draw < 2000; ++draw) {
    const auto random = [&](int64_t i, int64_t bound) {
      return static_cast<int64_t>(kernel_test::random_word(draw, i) % static_cast<uint64_t>(bound));
    };
    std::vector<int64_t> counts(static_cast<size_t>(1 + random(0, 20)));
    const int64_t num_pairs = 1 + random(1, 300);
    const int64_t spread = 1 + random(2, static_cast<int64_t>(counts.size()));
    for (int64_t i = 0; i < num_pairs; ++i) ++counts[static_cast<size_t>(random(3 + i, spread))];
    for (const int64_t rows : {8, 16, 64, 128}) {
      int64_t tiles = 0;
      for (const int64_t count : counts) tiles += (count + rows - 1) / rows;
      EXPECT_LE(tiles,
                cuda::max_expert_tiles(num_pairs, static_cast<int64_t>(counts.size()), rows));
      EXPECT_LE(tiles, num_pairs);
    }
  }
}

}  // namespace
}  // namespace quire
