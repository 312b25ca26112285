#include "facade/parallel/eplb_config.h"

#include <gtest/gtest.h>

#include "facade/parallel_args.h"

namespace quire {
namespace {

TEST(EplbConfig, ReadsTheKeysOfVllm) {
  const auto defaults = parse_eplb_config("");
  ASSERT_TRUE(defaults.ok());
  EXPECT_TRUE(defaults->balance.is_enabled);
  EXPECT_EQ(defaults->balance.window_size, 1000);
  EXPECT_EQ(defaults->balance.step_interval, 3000);
  EXPECT_EQ(defaults->num_redundant_experts, 0);
  const auto given = parse_eplb_config(
      R"({"window_size": 10, "step_interval": 20, "num_redundant_experts": 3, "use_async": true})");
  ASSERT_TRUE(given.ok()) << given.status().message();
  EXPECT_EQ(given->balance.window_size, 10);
  EXPECT_EQ(given->balance.step_interval, 20);
  EXPECT_EQ(given->num_redundant_experts, 3);
}

TEST(EplbConfig, RefusesWhatCannotBe) {
  for (const char* text : {"x", "[]", R"({"window_size": 0})", R"({"step_interval": "3"})",
                           R"({"step_interval": 1.5})", R"({"num_redundant_experts": -1})",
                           R"({"num_redundant_experts": null})", R"({"windows": 3})"}) {
    const auto refused = parse_eplb_config(text);
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(refused.status().message().find("--eplb-config"), std::string::npos) << text;
  }
}

TEST(ExpertFlags, SayHowExpertsAreShared) {
  EngineArgs args;
  args.enable_expert_parallel = true;
  ModelRunnerOptions options;
  ASSERT_TRUE(set_expert_options(args, options).ok());
  EXPECT_TRUE(options.share.whole_experts);
  EXPECT_EQ(options.share.combine, ExpertCombine::kFewerBytes);
  EXPECT_FALSE(options.expert_balance.is_enabled);
  args.all2all_backend = "allgather_reducescatter";
  args.enable_eplb = true;
  args.eplb_config = R"({"num_redundant_experts": 2})";
  ASSERT_TRUE(set_expert_options(args, options).ok());
  EXPECT_EQ(options.share.combine, ExpertCombine::kAllGather);
  EXPECT_EQ(options.share.num_redundant_experts, 2);
  EXPECT_TRUE(options.expert_balance.is_enabled);
  args.all2all_backend = "all2all";
  args.enable_eplb = false;
  EXPECT_EQ(set_expert_options(args, options).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire
