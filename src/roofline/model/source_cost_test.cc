// The costs of sources, to which a decoder attends beside its tokens, and of their encoder,
// compared with sums by hand.
#include <gtest/gtest.h>

#include <numeric>

#include "roofline/model/cost_model.h"
#include "roofline/model/memory_model.h"

namespace quire {
namespace {

// Whisper-like sizes: E 512, 8 heads of 64, 6 layers each, sources of 1500 rows.
ModelShape source_model(bool has_source = true) {
  const LayerGroup layers{.num_layers = 6,
                          .attention = {.num_heads = 8, .num_kv_heads = 8, .head_dim = 64},
                          .ffn = {.intermediate_size = 2048, .num_matrices = 2},
                          .state = {}};
  ModelShape model{.name = "listener",
                   .hidden_size = 512,
                   .vocab_size = 51865,
                   .max_model_len = 448,
                   .tied_head = true,
                   .groups = {layers},
                   .source = {},
                   .weights = {16, MathType::kBf16},
                   .expert_weights = {},
                   .head_weights = {16, MathType::kBf16}};
  if (!has_source) return model;
  model.source = {.num_heads = 8,
                  .head_dim = 64,
                  .row_size = 512,
                  .max_rows = 1500,
                  .encoder = {layers},
                  .front_elements = 3 * 80 * 512 + 3 * 512 * 512};
  return model;
}

constexpr double kLayer = 4 * 512.0 * 512 + 2 * 512.0 * 2048;
constexpr double kFront = 3 * 80 * 512 + 3 * 512 * 512;

CostModel cost_of(const ModelShape& model, Fidelity fidelity = Fidelity::kAnalytic) {
  return CostModel::create(model, find_hardware("cpu-avx512").value(), {},
                           {.fidelity = fidelity, .max_memoised_tokens = 64})
      .value();
}

const KernelCost& at(const std::array<KernelCost, kNumKernels>& costs, Kernel kernel) {
  return costs[static_cast<size_t>(kernel)];
}

TEST(SourceCost, ParametersAndBytesByHand) {
  const ModelShape model = source_model();
  ASSERT_TRUE(model.validate().ok()) << model.validate().message();
  EXPECT_EQ(model.source_bytes_per_row(), 2.0 * 512 * 6 * 2);
  EXPECT_EQ(static_cast<double>(model.num_decoder_parameters()),
            51865.0 * 512 + 6 * (kLayer + 4 * 512 * 512));
  EXPECT_EQ(static_cast<double>(model.num_parameters()),
            51865.0 * 512 + 6 * (kLayer + 4 * 512 * 512) + 6 * kLayer + kFront);
  EXPECT_EQ(model.num_active_parameters(), model.num_parameters());
}

TEST(SourceCost, DecodesReadTheirSourcesKeysAndValues) {
  const CostModel cost = cost_of(source_model());
  StepShape step;
  step.add(10, 1, true, {}, 1500);
  step.add(20, 1, true, {}, 1500);
  step.add(0, 4, true, {}, 700);
  const auto kernels = cost.explain(step);
  const KernelCost& cross = at(kernels, Kernel::kCrossAttention);
  EXPECT_DOUBLE_EQ(cross.flops, 6 * 4.0 * 512 * (1500 + 1500 + 4 * 700));
  const double rows = 1500 + 1500 + 700, queries = 6;
  EXPECT_DOUBLE_EQ(cross.read_bytes, rows * 2 * 512 * 6 * 2 + queries * 512 * 2 * 6);
  EXPECT_EQ(at(kernels, Kernel::kEncoder).flops, 0);
  // The products for queries and outputs of the attention to sources run over all tokens.
  const auto without = cost_of(source_model(false)).explain(step);
  EXPECT_DOUBLE_EQ(
      at(kernels, Kernel::kQkvProjection).flops - at(without, Kernel::kQkvProjection).flops,
      2.0 * 6 * 512 * 512 * 6);
}

TEST(SourceCost, EachSourceIsEncodedByItself) {
  const CostModel cost = cost_of(source_model());
  StepShape step;
  step.add(0, 4, true, {}, 1500);
  const auto before = cost.explain(step);
  const StepCost plain = cost.predict(step);
  step.encoded_rows = {1500};
  const auto kernels = cost.explain(step);
  const KernelCost& encoder = at(kernels, Kernel::kEncoder);
  // The layers, the products before them, attention of all rows to all rows, and keys and values
  // for the decoder.
  const double products = 2.0 * 1500 * (6 * kLayer + kFront + 6 * 2 * 512 * 512);
  EXPECT_DOUBLE_EQ(encoder.flops, products + 6 * 4.0 * 512 * 1500 * 1500);
  for (int i = 0; i < kNumKernels; ++i) {
    if (i == static_cast<int>(Kernel::kEncoder)) continue;
    EXPECT_EQ(kernels[static_cast<size_t>(i)].flops, before[static_cast<size_t>(i)].flops);
  }
  const StepCost whole = cost.predict(step);
  EXPECT_DOUBLE_EQ(whole.flops, plain.flops + encoder.flops);
  EXPECT_GT(whole.bound_us, plain.bound_us);
  EXPECT_NEAR(whole.total_us, plain.total_us + encoder.predicted_us, 1e-6 * whole.total_us);
  EXPECT_NEAR(cost.predict_us(step), whole.total_us, 1e-9 * whole.total_us);
  EXPECT_NEAR(cost.bound_us(step), whole.bound_us, 1e-9 * whole.bound_us);
  step.encoded_rows = {32};
  const double once = at(cost.explain(step), Kernel::kEncoder).read_bytes;
  step.encoded_rows = {16, 16};
  EXPECT_GT(at(cost.explain(step), Kernel::kEncoder).read_bytes, 1.5 * once)
      << "the weights are read twice";
  const StepCost bound = cost_of(source_model(), Fidelity::kBound).predict(step);
  EXPECT_NEAR(bound.total_us, bound.bound_us, 1e-9 * bound.bound_us);
  step.clear();
  EXPECT_TRUE(step.encoded_rows.empty() && step.source_chunks.empty());
  EXPECT_EQ(step.decode_source_rows, 0);
}

// A tower of four layers, of which one sees the whole picture and three see windows of 64 rows;
// four rows become one embedding.
ModelShape reading_pictures() {
  ModelShape model = source_model(false);
  const AttentionShape heads{.num_heads = 4, .num_kv_heads = 4, .head_dim = 16};
  const LayerGroup whole{
      .num_layers = 1, .attention = heads, .ffn = {.intermediate_size = 128, .num_matrices = 2}};
  LayerGroup windows = whole;
  windows.num_layers = 3;
  windows.attention.sliding_window = 64;
  model.tower = {.width = 64,
                 .encoder = {whole, windows},
                 .rows_per_embedding = 4,
                 .patch_elements = 64 * 300,
                 .projector_elements = 256 * 512,
                 .max_embeddings = 256};
  return model;
}

TEST(PictureCost, EachPictureIsEncodedByItself) {
  const ModelShape model = reading_pictures();
  const CostModel cost = cost_of(model);
  StepShape step;
  step.add(0, 200, true, {});
  const StepCost plain = cost.predict(step);
  EXPECT_EQ(at(cost.explain(step), Kernel::kEncoder).flops, 0);
  step.pictures = {100};
  const KernelCost encoder = at(cost.explain(step), Kernel::kEncoder);
  const double rows = 400, layer = 4 * 64 * 64 + 2 * 64 * 128;
  const double products = 2 * rows * (4 * layer + 64 * 300) + 2.0 * 100 * 256 * 512;
  EXPECT_DOUBLE_EQ(encoder.flops, products + 4.0 * 64 * rows * (rows + 3 * 64));
  const StepCost with = cost.predict(step);
  EXPECT_DOUBLE_EQ(with.flops, plain.flops + encoder.flops);
  EXPECT_NEAR(with.total_us, plain.total_us + encoder.predicted_us, 1e-6 * with.total_us);
  EXPECT_NEAR(cost.predict_us(step), with.total_us, 1e-9 * with.total_us);
  step.pictures = {50, 50};
  EXPECT_LT(at(cost.explain(step), Kernel::kEncoder).flops, encoder.flops) << "rows see less";
  step.pictures = {8};
  const double once = at(cost.explain(step), Kernel::kEncoder).read_bytes;
  step.pictures = {4, 4};
  EXPECT_GT(at(cost.explain(step), Kernel::kEncoder).read_bytes, 1.5 * once)
      << "the weights are read twice";
  EXPECT_EQ(model.num_parameters() - model.num_decoder_parameters(),
            int64_t{4} * (4 * 64 * 64 + 2 * 64 * 128) + 64 * 300 + 256 * 512);
  step.clear();
  EXPECT_TRUE(step.pictures.empty());
}

TEST(PictureCost, DescriptionsKeepTheTower) {
  const ModelShape model = reading_pictures();
  const auto again = parse_model_description(to_json(model), "model");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(to_json(*again), to_json(model));
  StepShape step;
  step.add(0, 200, true, {});
  step.pictures = {100, 7};
  EXPECT_EQ(cost_of(*again).predict_us(step), cost_of(model).predict_us(step));
  ModelShape wrong = model;
  wrong.tower.encoder.clear();
  EXPECT_FALSE(wrong.validate().ok());
  wrong = model;
  wrong.tower.rows_per_embedding = 0;
  EXPECT_FALSE(parse_model_description(to_json(wrong), "model").ok());
}

TEST(SourceCost, DescriptionsKeepTheSource) {
  const ModelShape model = source_model();
  const auto read = parse_model_description(to_json(model), "test");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(to_json(*read), to_json(model));
  ModelShape wrong = model;
  wrong.source.encoder.clear();
  EXPECT_NE(wrong.validate().message().find("source: expected"), std::string::npos);
  EXPECT_FALSE(parse_model_description(to_json(wrong), "test").ok());
  wrong = model;
  wrong.source.encoder[0].ffn.num_experts = 4;
  EXPECT_NE(wrong.validate().message().find("encoder: expected layers"), std::string::npos);
}

}  // namespace
}  // namespace quire
