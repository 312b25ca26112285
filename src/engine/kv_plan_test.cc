#include "engine/kv_plan.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

const ExecutorInfo kModel{.vocab_size = 100, .max_model_len = 1024};
const KvSpec kSpec{.block_size = 16, .groups = {KvGroupSpec{}}, .block_bytes = 1000};

EngineOptions options(int32_t max_model_len) {
  EngineOptions o;
  o.scheduler.max_model_len = max_model_len;
  return o;
}

TEST(KvPlan, BlocksComeFromBytesWithoutRoundingUp) {
  const auto sizing = plan_kv(options(256), kModel, kSpec, 64'999);
  ASSERT_TRUE(sizing.ok()) << sizing.status().message();
  EXPECT_EQ(sizing->plan.num_blocks, 64);
  EXPECT_EQ(sizing->kv_bytes, 64'000);
  EXPECT_EQ(sizing->max_model_len, 256);
  EXPECT_NEAR(sizing->max_concurrency, 63.0 / 16, 1e-9);
}

TEST(KvPlan, OverridesWin) {
  auto o = options(16);
  o.kv_cache_bytes = 20'000;
  EXPECT_EQ(plan_kv(o, kModel, kSpec, 1 << 30)->plan.num_blocks, 20);
  o.num_blocks = 7;
  EXPECT_EQ(plan_kv(o, kModel, kSpec, 1 << 30)->plan.num_blocks, 7);
}

TEST(KvPlan, UnsetLengthIsTheModelsOrWhatFits) {
  EXPECT_EQ(plan_kv(options(0), kModel, kSpec, 1 << 30)->max_model_len, 1024);
  auto o = options(0);
  o.num_blocks = 11;
  EXPECT_EQ(plan_kv(o, kModel, kSpec, 0)->max_model_len, 160);
}

TEST(KvPlan, RefusesWhatCannotHoldOneRequest) {
  auto o = options(512);
  o.num_blocks = 32;  // 31 usable, 32 needed
  const auto refused = plan_kv(o, kModel, kSpec, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("496 tokens"), std::string::npos)
      << refused.status().message();
  o.num_blocks = 33;
  EXPECT_TRUE(plan_kv(o, kModel, kSpec, 0).ok());
}

TEST(KvPlan, RefusesNonsense) {
  EXPECT_FALSE(plan_kv(options(1025), kModel, kSpec, 1 << 30).ok());
  EXPECT_FALSE(plan_kv(options(-1), kModel, kSpec, 1 << 30).ok());
  const auto no_room_for_an_answer = plan_kv(options(1), kModel, kSpec, 1 << 30);
  EXPECT_EQ(no_room_for_an_answer.status().code(), StatusCode::kInvalidArgument);
  const auto no_context = plan_kv(options(0), {.max_model_len = 1}, kSpec, 1 << 30);
  EXPECT_EQ(no_context.status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(plan_kv(options(16), kModel, kSpec, 1999).ok());
  EXPECT_FALSE(plan_kv(options(16), kModel, kSpec, -5).ok());
  auto o = options(16);
  o.num_blocks = 1;
  EXPECT_FALSE(plan_kv(o, kModel, kSpec, 1 << 30).ok());
  KvSpec empty = kSpec;
  empty.groups.clear();
  EXPECT_FALSE(plan_kv(options(16), kModel, empty, 1 << 30).ok());
}

}  // namespace
}  // namespace quire
