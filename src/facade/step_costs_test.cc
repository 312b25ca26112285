#include "facade/step_costs.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

ModelPlan plan_with(DType kv_dtype) {
  ModelPlan plan;
  plan.spec.hidden_size = 2048;
  plan.spec.vocab_size = 1000;
  const LayerSpec layer{.attention = {.num_heads = 32, .num_kv_heads = 8, .head_dim = 64},
                        .ffn = {.intermediate_size = 8192}};
  plan.spec.layers.assign(16, layer);
  plan.kv_dtype = kv_dtype;
  plan.kv = make_kv_layout(plan.spec, 16, kv_dtype);
  return plan;
}

TEST(StepCosts, KvBytesAreThoseOfTheCache) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3, DType::kI8}) {
    const ModelPlan plan = plan_with(dtype);
    EXPECT_EQ(cost_shape("model", plan).kv_bytes_per_token(), plan.kv.bytes_per_token())
        << to_string(dtype);
  }
  // One bf16 scale per token and KV head: 2 bytes beside 64.
  EXPECT_EQ(cost_shape("model", plan_with(DType::kI8)).kv.bits, 8.0 * 66 / 64);
}

// Every packed byte is read once: int8 layers under a bfloat16 head must not count the head again.
TEST(StepCosts, QuantizedWeightsTakeTheirPackedBytes) {
  for (const bool tied : {true, false}) {
    ModelPlan plan = plan_with(DType::kBF16);
    plan.spec.tied_head = tied;
    plan.matrix_compute = ComputeType::kInt8;
    const double head = 1000.0 * 2048;
    const double layers = 16.0 * (2048 * 2048 * 2 + 2048 * 512 * 2 + 3.0 * 2048 * 8192);
    plan.memory.matrices = {.dense = static_cast<int64_t>(layers),
                            .head = static_cast<int64_t>(2 * head)};
    const ModelShape shape = cost_shape("model", plan);
    EXPECT_NEAR(layers * shape.weights.bytes() + head * shape.head_weights.bytes(),
                layers + 2 * head, 1e-3 * layers);
    EXPECT_EQ(shape.weights.math, MathType::kInt8);
  }
}

// A step of few tokens reads all of a float head and few of the quantized experts, so one average
// of the two would be right for neither.
TEST(StepCosts, ExpertsAndTheHeadAreStoredApart) {
  ModelPlan plan = plan_with(DType::kBF16);
  for (LayerSpec& layer : plan.spec.layers) {
    layer.ffn = {};
    layer.ffn.experts = {.router = {.num_experts = 64, .experts_per_token = 4},
                         .intermediate_size = 512};
  }
  const double experts = 16.0 * 64 * 3 * 2048 * 512;
  const double dense = 16.0 * (2048 * 2048 * 2 + 2048 * 512 * 2 + 2048 * 64);
  plan.memory.matrices = {.dense = static_cast<int64_t>(dense),
                          .experts = static_cast<int64_t>(experts / 2),
                          .head = 1000 * 2048 * 2};
  const ModelShape shape = cost_shape("model", plan);
  EXPECT_NEAR(shape.weights.bits, 8, 0.01);
  EXPECT_NEAR(shape.expert_weights.bits, 4, 0.01);
  EXPECT_EQ(shape.head_weights.bits, 16);
}

// The activations between ops are float32 on a CPU, bfloat16 on a GPU.
TEST(StepCosts, ActivationsAreThoseOfTheDevice) {
  ModelPlan plan = plan_with(DType::kBF16);
  EXPECT_EQ(cost_shape("model", plan).activations.bits, 32);
  plan.limits.activation_type = DType::kBF16;
  EXPECT_EQ(cost_shape("model", plan).activations.bits, 16);
  EXPECT_EQ(cost_shape("model", plan).activations.math, MathType::kBf16);
}

}  // namespace
}  // namespace quire
