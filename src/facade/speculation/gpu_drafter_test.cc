// Compares drafters of hidden states, with both models on a GPU, with an oracle
// (tools/make_draft_goldens.py).
#include <gtest/gtest.h>

#include "exec/gpu/gpu_runner.h"
#include "facade/testing/draft_golden_support.h"
#include "kernels/cuda/test/test_device.h"

namespace quire {
namespace {

using test::Served;

Result<std::unique_ptr<Executor>> load(const ModelRunnerOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, gpu_test::open_test_device());
  ModelRunnerOptions of_gpu = options;
  of_gpu.dtype = "auto";
  of_gpu.compute = std::nullopt;
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<GpuRunner> runner,
                         GpuRunner::create(of_gpu, {}, std::move(device)));
  return std::unique_ptr<Executor>(std::move(runner));
}

class GpuDraftGoldens : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto device = gpu_test::open_test_device();
    if (!device.ok()) GTEST_SKIP() << "SKIPPED: " << device.status().message();
  }
};

// The oracle computes in float32, so in bf16 a draft may be the other one of a near-tie, and those
// after it in the chain may differ too. The text itself is greedy, and the served model's.
TEST_P(GpuDraftGoldens, AreMostlyTheOraclesDrafts) {
  Served served(GetParam(), load);
  const test::DraftGolden& golden = served.golden();
  served.start(1, golden.num_prompt_tokens);
  served.step(7);
  served.step(static_cast<int32_t>(golden.num_prompt_tokens) - 7);
  size_t num_compared = 0;
  size_t num_same = 0;
  for (const test::GoldenDrafts& step : golden.steps) {
    const std::vector<TokenId>& tokens = served.request().token_ids;
    if (tokens.size() > step.num_tokens) continue;  // accepted drafts
    if (tokens.size() < step.num_tokens || tokens.back() != golden.token_ids[step.num_tokens - 1])
      break;
    const std::vector<TokenId> drafts = served.propose();
    EXPECT_EQ(served.propose(), drafts) << "asked once more";
    ASSERT_EQ(drafts.size(), step.drafts.size());
    ++num_compared;
    num_same += drafts.front() == step.drafts.front();
    served.step(1, drafts);
  }
  fmt::print("{}: {} of {} first drafts\n", GetParam(), num_same, num_compared);
  EXPECT_GE(num_compared, 2u);
  EXPECT_GE(3 * num_same, 2 * num_compared);
  served.end();
  EXPECT_EQ(served.rows().num_rows(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, GpuDraftGoldens,
                         ::testing::Values("eagle", "eagle_prefix", "eagle3_original",
                                           "eagle3_speculators", "mtp_deepseek", "mtp_glm",
                                           "mtp_qwen"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace quire
