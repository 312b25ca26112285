// Law L4 for ranks: ids and logprobs are the same bits for every number of ranks.
#include "ranks/ranked_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "exec/testing/l4_support.h"
#include "ranks/testing/rank_options.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

using test::DriverOutput;
using test::DriverRequest;
using test::PlanDriver;

int64_t total(const MatrixBytes& bytes) { return bytes.dense + bytes.experts + bytes.head; }

class SameBits : public ::testing::TestWithParam<std::string> {
 protected:
  void expect_equal(const std::string& dtype) {
    const ModelRunnerOptions options = test::rank_options(GetParam(), dtype);
    auto alone = ModelRunner::create(options);
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    ASSERT_TRUE((*alone)->initialize(test::kRankPlan).ok());
    PlanDriver driver(**alone, test::kRankBlocks);
    const DriverOutput want = driver.run({test::rank_request(1)}, {})[1];
    ASSERT_TRUE(want.status.ok()) << want.status.message();
    int num_shared = 0;
    for (const int num_ranks : {2, 3, 4}) {
      auto ranks = RankedExecutor::create(options, num_ranks);
      if (!ranks.ok()) {
        ASSERT_EQ(ranks.status().code(), StatusCode::kInvalidArgument) << ranks.status().message();
        continue;
      }
      ++num_shared;
      ASSERT_TRUE((*ranks)->initialize(test::kRankPlan).ok());
      ASSERT_TRUE((*ranks)->warm_up().ok());
      const std::string what = fmt::format("{}, {} ranks", dtype, num_ranks);
      PlanDriver of_ranks(**ranks, test::kRankBlocks);
      test::expect_same_bits(of_ranks.run({test::rank_request(1)}, {})[1], want, what + ", alone");
      auto crowd = of_ranks.run(test::rank_crowd(100), test::kRankChunks);
      test::expect_same_bits(crowd[100], want, what + ", in a crowd");
    }
    EXPECT_GE(num_shared, 1) << "no number of ranks can share the model";
  }
};

TEST_P(SameBits, Float32) { expect_equal("float32"); }
TEST_P(SameBits, Bfloat16) { expect_equal("bfloat16"); }

// Models with sparse MLPs, blocks that layers share, or norms inside MLPs.
const std::vector<std::string> kWhole = {
    "gemma3n",       "zamba2",           "zamba2_one_block",
    "zamba2_untied", "int8_rows_zamba2", "int8_rows_gemma3n_text",
    "bitnet",        "bitnet_silu",      "bitnet_bitnet"};

// All models that can be divided among ranks.
std::vector<std::string> shareable(std::vector<std::string> names) {
  for (const std::string& whole : kWhole) std::erase(names, whole);
  return names;
}

TEST(RankedExecutor, RefusesWhatNeedsWholeRows) {
  for (const std::string& name : kWhole) {
    const Status refused = RankedExecutor::create(test::rank_options(name, "float32"), 2).status();
    EXPECT_EQ(refused.code(), StatusCode::kUnimplemented) << refused.message();
    EXPECT_NE(refused.message().find("--tensor-parallel-size"), std::string::npos);
  }
}

std::string case_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');  // GoogleTest allows no '-'
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, SameBits,
                         ::testing::ValuesIn(shareable(test::model_golden_names())), case_name);

// Quantized weights are cut in their stored form.
class QuantizedSameBits : public SameBits {};
TEST_P(QuantizedSameBits, AsStored) { expect_equal("auto"); }
INSTANTIATE_TEST_SUITE_P(Models, QuantizedSameBits,
                         ::testing::ValuesIn(shareable(test::quant_golden_names())), case_name);

// Experts that are spread whole over the ranks give the same bits as experts that are cut, and as
// one rank, however their outputs are combined and wherever they are placed.
class SpreadExperts : public ::testing::TestWithParam<std::string> {
 protected:
  ModelRunnerOptions spread_options(const std::string& dtype) {
    ModelRunnerOptions options = test::rank_options(GetParam(), dtype);
    options.share.whole_experts = true;
    return options;
  }

  void expect_equal(const ModelRunnerOptions& options, const std::string& what) {
    const DriverRequest request = test::rank_request(1);
    auto alone = ModelRunner::create(options);
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    ASSERT_TRUE((*alone)->initialize(test::kRankPlan).ok());
    PlanDriver driver(**alone, test::kRankBlocks);
    const DriverOutput want = driver.run({request}, {})[1];
    ASSERT_TRUE(want.status.ok()) << want.status.message();
    num_spread_ = 0;
    for (const int num_ranks : {2, 3, 4}) {
      auto ranks = RankedExecutor::create(options, num_ranks);
      if (!ranks.ok()) {
        ASSERT_EQ(ranks.status().code(), StatusCode::kInvalidArgument) << ranks.status().message();
        continue;
      }
      ++num_spread_;
      ASSERT_TRUE((*ranks)->initialize(test::kRankPlan).ok());
      ASSERT_TRUE((*ranks)->warm_up().ok());
      const std::string of = fmt::format("{}, {} ranks", what, num_ranks);
      PlanDriver of_ranks(**ranks, test::kRankBlocks);
      test::expect_same_bits(of_ranks.run({request}, {})[1], want, of + ", alone");
      auto crowd = of_ranks.run(test::rank_crowd(100), test::kRankChunks);
      test::expect_same_bits(crowd[100], want, of + ", in a crowd");
    }
    EXPECT_GE(num_spread_, 1) << "no number of ranks can share the model";
  }

  int num_spread_ = 0;
};

TEST_P(SpreadExperts, Float32) { expect_equal(spread_options("float32"), "float32"); }

TEST_P(SpreadExperts, AsStored) {
  for (const ExpertCombine combine : {ExpertCombine::kAllGather, ExpertCombine::kAllToAll}) {
    ModelRunnerOptions options = spread_options("auto");
    options.share.combine = combine;
    expect_equal(options, combine == ExpertCombine::kAllToAll ? "all-to-all" : "all-gather");
  }
}

// Experts move while requests run, and one of them is on two ranks.
TEST_P(SpreadExperts, ByLoad) {
  ModelRunnerOptions options = spread_options("auto");
  options.share.num_redundant_experts = 1;
  int64_t num_changes = 0;  // layers that got another placement
  options.expert_balance = {
      .is_enabled = true, .window_size = 3, .step_interval = 4, .on_change = [&](size_t) {
        ++num_changes;
      }};
  expect_equal(options, "by load");
  EXPECT_GT(num_changes, 0);
}

// Goldens with a config.json; a GGUF file describes itself. The list is kept, since GoogleTest asks
// for it for each test of the suite, in every process.
const std::vector<std::string>& expert_goldens() {
  static std::vector<std::string> names;
  if (!names.empty()) return names;
  for (const auto& all : {test::model_golden_names(), test::quant_golden_names()}) {
    for (const std::string& name : all) {
      if (!std::filesystem::exists(test::golden_dir(name) / "config.json")) continue;
      const std::vector<bool> layers = test::golden_config(name).experts.layers;
      if (std::find(layers.begin(), layers.end(), true) != layers.end()) names.push_back(name);
    }
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, SpreadExperts, ::testing::ValuesIn(expert_goldens()), case_name);

TEST(SpreadExperts, NeedExpertsAndNoMoreRanksThanThose) {
  ModelRunnerOptions options = test::rank_options("llama", "float32");
  options.share.whole_experts = true;
  EXPECT_NE(RankedExecutor::create(options, 2).status().message().find("--enable-expert-parallel"),
            std::string::npos);
  options = test::rank_options("qwen3_moe", "float32");
  options.share.whole_experts = true;
  const Status refused = RankedExecutor::create(options, 64).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("experts; expected at most as many ranks"), std::string::npos)
      << refused.message();
}

TEST(RankedExecutor, DividesThreadsAndMemory) {
  ModelRunnerOptions options = test::rank_options("llama", "float32");
  options.threads = 4;
  const auto alone = ModelRunner::create(options);
  auto ranks = RankedExecutor::create(options, 2);
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  EXPECT_EQ((*ranks)->num_ranks(), 2);
  EXPECT_EQ((*ranks)->kv_spec().block_bytes * 2, (*alone)->kv_spec().block_bytes);
  const auto blocks = [](const Executor& of) {
    return of.available_kv_bytes() / of.kv_spec().block_bytes;
  };
  EXPECT_EQ(blocks(**ranks), blocks(**alone));
  const MemoryPlan& sum = (*ranks)->plan().memory;
  EXPECT_GE(total(sum.matrices), total((*alone)->plan().memory.matrices));
  EXPECT_EQ(sum.kv_bytes_per_token, (*alone)->plan().memory.kv_bytes_per_token);
  EXPECT_EQ((*ranks)->plan().spec.num_parameters(), (*alone)->plan().spec.num_parameters());
}

TEST(RankedExecutor, ARankHoldsItsShareOfTheWeights) {
  ModelRunnerOptions options{.shape = "qwen2.5-0.5b", .threads = 1};
  const auto whole = ModelRunner::plan_only(options);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  options.share = {1, 2};
  const auto half = ModelRunner::plan_only(options);
  ASSERT_TRUE(half.ok()) << half.status().message();
  EXPECT_LT(total(half->memory.matrices), total(whole->memory.matrices) * 51 / 100);
  EXPECT_EQ(half->memory.block_bytes * 2, whole->memory.block_bytes);
}

TEST(SpreadExperts, ARankHoldsItsShareOfTheExperts) {
  ModelRunnerOptions options{.shape = "gpt-oss-20b-2l", .threads = 1};
  const auto whole = ModelRunner::plan_only(options);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  for (const int32_t num_ranks : {2, 4}) {
    options.share = {.rank = 1, .num_ranks = num_ranks, .whole_experts = true};
    const auto part = ModelRunner::plan_only(options);
    ASSERT_TRUE(part.ok()) << part.status().message();
    EXPECT_LT(total(part->memory.matrices) * num_ranks, total(whole->memory.matrices) * 103 / 100);
  }
}

TEST(RankedExecutor, RefusesWhatCannotBeShared) {
  const ModelRunnerOptions options = test::rank_options("gemma2", "float32");
  for (const int num_ranks : {0, 65}) {
    EXPECT_EQ(RankedExecutor::create(options, num_ranks).status().code(),
              StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace quire
