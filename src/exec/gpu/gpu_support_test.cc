#include "exec/gpu/gpu_support.h"

#include <gtest/gtest.h>

#include <string>

namespace quire {
namespace {

// Returns the plan of a model of one attention layer.
ModelPlan plan_of(const AttentionSpec& attention) {
  ModelPlan plan;
  plan.spec.layers.resize(1);
  plan.spec.layers[0].attention = attention;
  plan.kv_dtype = DType::kBF16;
  return plan;
}

Status check(const ModelPlan& plan) {
  const GpuInfo gpu{.shared_bytes_per_block = 227 << 10};
  return check_gpu_support(plan, gpu, 1000);
}

constexpr AttentionSpec kAttention{.num_heads = 4, .num_kv_heads = 2, .head_dim = 64};

TEST(GpuSupport, HeadsAreOfAnyEvenNumberOfDimsUpTo512) {
  for (const int32_t head_dim : {2, 6, 64, 80, 256, 320, 512}) {
    AttentionSpec attention = kAttention;
    attention.head_dim = head_dim;
    EXPECT_TRUE(check(plan_of(attention)).ok()) << head_dim;
  }
  for (const int32_t head_dim : {7, 514}) {
    AttentionSpec attention = kAttention;
    attention.head_dim = head_dim;
    const Status status = check(plan_of(attention));
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
    EXPECT_NE(status.message().find("even and at most 512"), std::string::npos);
  }
}

TEST(GpuSupport, RefusesWhatNoKernelDoes) {
  ModelPlan plan = plan_of(kAttention);
  plan.spec.layers[0].attention.qk_norm = QkNorm::kAllHeads;
  plan.spec.layers[0].attention.qk_norm_after_rope = true;
  EXPECT_NE(check(plan).message().find("after rotation"), std::string::npos);
  plan = plan_of(kAttention);
  plan.spec.layers[0].attention.index.top_k = 2048;
  EXPECT_NE(check(plan).message().find("--max-model-len 2048"), std::string::npos);
  plan = plan_of(kAttention);
  plan.spec.layers[0].attention.causal = false;
  EXPECT_NE(check(plan).message().find("see those behind them"), std::string::npos);
  plan = plan_of(kAttention);
  plan.kv.spec.block_size = 24;
  EXPECT_EQ(check(plan).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire
