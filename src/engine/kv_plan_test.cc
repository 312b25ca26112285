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

// A state every 64 tokens takes as much as 4 tokens of attention.
KvSpec hybrid() {
  KvSpec spec = kSpec;
  spec.groups.push_back({.kind = KvKind::kState});
  spec.state = {.block_size = 64, .block_bytes = 4000};
  return spec;
}

TEST(KvPlan, StatesGetWhatRunsAndASnapshotForWhatAttentionHolds) {
  auto o = options(256);
  o.scheduler.max_num_seqs = 4;
  o.scheduler.max_num_batched_tokens = 128;
  const auto sizing = plan_kv(o, kModel, hybrid(), 1'000'000);
  ASSERT_TRUE(sizing.ok()) << sizing.status().message();
  // 1 + 2 * 4 + 128 / 64 states for running requests; the rest is divided in halves.
  const int32_t num_running = 11;
  EXPECT_EQ(sizing->plan.num_blocks, (1'000'000 - num_running * 4000) / 2 / 1000);
  EXPECT_NEAR(sizing->plan.num_state_blocks - num_running, sizing->plan.num_blocks / 4, 1);
  EXPECT_LE(sizing->kv_bytes, 1'000'000);
}

TEST(KvPlan, StatesOfManyRequestsTakeAtMostHalf) {
  auto o = options(64);
  o.scheduler.max_num_seqs = 200;
  const auto sizing = plan_kv(o, kModel, hybrid(), 100'000);
  ASSERT_TRUE(sizing.ok()) << sizing.status().message();
  EXPECT_EQ(sizing->plan.num_blocks, 25);
  EXPECT_EQ(sizing->plan.num_state_blocks, 18);
}

TEST(KvPlan, ModelsWithStatesAlone) {
  KvSpec spec = hybrid();
  spec.groups.erase(spec.groups.begin());
  spec.block_bytes = 0;
  auto o = options(256);
  const auto sizing = plan_kv(o, kModel, spec, 40'000);
  ASSERT_TRUE(sizing.ok()) << sizing.status().message();
  EXPECT_EQ(sizing->plan.num_blocks, 0);
  EXPECT_EQ(sizing->plan.num_state_blocks, 10);
  KvPlan plan;
  add_host_blocks(1 << 20, spec, plan);
  EXPECT_EQ(plan.num_host_blocks, 0);
  EXPECT_EQ(plan.num_host_state_blocks, (1 << 20) / 4000 + 1);
  const auto refused = plan_kv(o, kModel, spec, 8'000);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("state blocks of 4000 bytes"), std::string::npos)
      << refused.status().message();
}

TEST(KvPlan, HostMemoryHasRoomForBlocksOfEachKindOrForNone) {
  const KvSpec spec = hybrid();
  KvPlan plan;
  add_host_blocks(4 * (spec.block_bytes + spec.state.block_bytes), spec, plan);
  EXPECT_GE(plan.num_host_blocks, 2);
  EXPECT_GE(plan.num_host_state_blocks, 2);
  EXPECT_LE((plan.num_host_blocks - 1) * spec.block_bytes +
                (plan.num_host_state_blocks - 1) * spec.state.block_bytes,
            4 * (spec.block_bytes + spec.state.block_bytes));
  add_host_blocks(spec.state.block_bytes, spec, plan);
  EXPECT_EQ(plan.num_host_blocks, 0);
  EXPECT_EQ(plan.num_host_state_blocks, 0);
}

TEST(KvPlan, StatesTakeNoHostMemoryWithoutFiles) {
  auto o = options(256);
  o.kv_offload_bytes = 1;
  const auto refused = plan_kv(o, kModel, hybrid(), 1 << 20);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("keep states"), std::string::npos);
}

}  // namespace
}  // namespace quire
