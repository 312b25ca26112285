// Drafters of hidden states against an oracle (tools/make_draft_goldens.py): tiny random heads beside
// a served model that runs as the engine runs it, in chunks and with drafts that are refused.
#include "facade/speculation/model_drafter.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>

#include "exec/model_runner.h"
#include "exec/testing/golden_support.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

struct DraftStep {
  size_t num_tokens = 0;
  std::vector<TokenId> drafts;
};

struct DraftGolden {
  fs::path target;
  std::vector<TokenId> token_ids;
  size_t num_prompt_tokens = 0;
  std::vector<DraftStep> steps;
};

fs::path goldens() { return test::golden_dir("llama").parent_path().parent_path(); }

std::vector<TokenId> ids_of(const boost::json::value& value) {
  return boost::json::value_to<std::vector<TokenId>>(value);
}

DraftGolden read_draft_golden(const std::string& name) {
  const auto json =
      boost::json::parse(test::read_file(goldens() / "drafting" / name / "golden.json"));
  DraftGolden golden{
      .target = goldens() / std::string(json.at("target").as_string()),
      .token_ids = ids_of(json.at("token_ids")),
      .num_prompt_tokens = static_cast<size_t>(json.at("num_prompt_tokens").as_int64())};
  for (const boost::json::value& step : json.at("steps").as_array()) {
    golden.steps.push_back(
        {static_cast<size_t>(step.at("num_tokens").as_int64()), ids_of(step.at("drafts"))});
  }
  return golden;
}

constexpr int32_t kNumDrafts = 3;
constexpr int32_t kNumBlocks = 64;

SpeculativeConfig config_of(const std::string& name) {
  SpeculativeConfig config{.num_speculative_tokens = kNumDrafts};
  const std::string kind = name.substr(0, name.find('_'));
  config.method = kind == "medusa"   ? SpeculativeMethod::kMedusa
                  : kind == "eagle"  ? SpeculativeMethod::kEagle
                  : kind == "eagle3" ? SpeculativeMethod::kEagle3
                                     : SpeculativeMethod::kMtp;
  if (kind != "mtp") config.model = (goldens() / "drafting" / name).string();
  return config;
}

Result<std::unique_ptr<Executor>> load(const ModelRunnerOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<ModelRunner> runner, ModelRunner::create(options));
  return std::unique_ptr<Executor>(std::move(runner));
}

ModelRunnerOptions options_of(const fs::path& target) {
  Result<ModelFiles> files = ModelFiles::open(target.string());
  EXPECT_TRUE(files.ok()) << files.status().message();
  return {.files = std::make_shared<const ModelFiles>(std::move(*files)),
          .dtype = "float32",
          .compute = ComputeType::kF32,
          .threads = 1,
          .max_num_batched_tokens = 64,
          .max_num_seqs = 4,
          .kv_cache_memory_bytes = int64_t{8} << 20};
}

// The served model with one request at a time, and the drafter that watches it.
class Served {
 public:
  explicit Served(const std::string& name) : golden_(read_draft_golden(name)) {
    ModelRunnerOptions options = options_of(golden_.target);
    Result<ModelDrafter> drafter = make_model_drafter(config_of(name), options, load);
    EXPECT_TRUE(drafter.ok()) << drafter.status().message();
    drafter_ = std::move(*drafter);
    options.hidden_rows = drafter_.hidden_rows;
    Result<std::unique_ptr<ModelRunner>> runner = ModelRunner::create(options);
    EXPECT_TRUE(runner.ok()) << runner.status().message();
    runner_ = std::move(*runner);
    EXPECT_TRUE(
        runner_->initialize({.num_blocks = kNumBlocks, .num_state_blocks = kNumBlocks}).ok());
    verifies_ = !runner_->kv_spec().uses(KvPool::kState);
  }

  const DraftGolden& golden() const { return golden_; }
  Drafter& drafter() { return *drafter_.drafter; }
  HiddenRows& rows() { return *drafter_.hidden_rows; }

  // `computed`: tokens at the front that another request has computed in the same blocks.
  void start(uint64_t id, size_t num_tokens, int32_t computed = 0) {
    request_.id = RequestId{id};
    const auto end = golden_.token_ids.begin() + static_cast<std::ptrdiff_t>(num_tokens);
    request_.token_ids.assign(golden_.token_ids.begin(), end);
    request_.num_prompt_tokens = static_cast<int32_t>(num_tokens);
    auto params = std::make_shared<SamplingParams>();
    params->temperature = 0;
    params->max_tokens = 64;
    request_.params = params;
    computed_ = computed;
    plan_.new_requests.push_back({.id = request_.id,
                                  .token_ids = request_.token_ids,
                                  .num_prompt_tokens = request_.num_prompt_tokens,
                                  .params = request_.params});
    const KvSpec kv = runner_->kv_spec();
    for (int32_t group = 0; group < std::ssize(kv.groups); ++group) {
      const bool is_state = kv.groups[static_cast<size_t>(group)].pool() == KvPool::kState;
      for (int32_t block = 0; block < (is_state ? 1 : 6); ++block)
        plan_.block_updates.push_back({0, group, block, BlockId{1 + block + 6 * group}});
    }
  }

  // A step of so many tokens, drafts behind them; what it samples joins the request.
  void step(int32_t num_tokens, std::span<const TokenId> drafts = {}) {
    if (!verifies_) drafts = {};
    const auto num_drafts = static_cast<int32_t>(drafts.size());
    plan_.scheduled = {{.id = request_.id,
                        .num_computed_tokens = computed_,
                        .num_scheduled_tokens = num_tokens + num_drafts,
                        .num_drafts = num_drafts}};
    plan_.draft_token_ids.assign(drafts.begin(), drafts.end());
    plan_.total_num_scheduled_tokens = num_tokens + num_drafts;
    const Result<StepResult> result = runner_->execute(plan_);
    ASSERT_TRUE(result.ok()) << result.status().message();
    const std::vector<TokenId>& sampled = result->requests[0].sampled_token_ids;
    request_.token_ids.insert(request_.token_ids.end(), sampled.begin(), sampled.end());
    computed_ += num_tokens + static_cast<int32_t>(std::max<size_t>(1, sampled.size())) - 1;
    plan_.clear();
  }

  std::vector<TokenId> propose() {
    DraftQuery query{.request = &request_, .max_drafts = kNumDrafts};
    drafter().propose({&query, 1});
    return {query.token_ids.begin(), query.token_ids.end()};
  }

  void end() {
    drafter().forget(request_.id);
    plan_.dropped.push_back(request_.id);
  }

  const Request& request() const { return request_; }
  int32_t computed() const { return computed_; }

 private:
  DraftGolden golden_;
  ModelDrafter drafter_;
  std::unique_ptr<ModelRunner> runner_;
  Request request_;
  StepPlan plan_;
  int32_t computed_ = 0;
  bool verifies_ = true;
};

class DraftGoldens : public ::testing::TestWithParam<std::string> {};

// After each token of the text.
void expect_golden_drafts(Served& served) {
  size_t num_compared = 0;
  for (const DraftStep& step : served.golden().steps) {
    const std::vector<TokenId>& tokens = served.request().token_ids;
    if (tokens.size() > step.num_tokens) continue;  // drafts that came out
    ASSERT_EQ(tokens.size(), step.num_tokens);
    ASSERT_EQ(tokens.back(), served.golden().token_ids[step.num_tokens - 1]);
    const std::vector<TokenId> drafts = served.propose();
    EXPECT_EQ(drafts, step.drafts) << "behind " << step.num_tokens << " tokens";
    EXPECT_EQ(served.propose(), step.drafts) << "asked once more";
    ++num_compared;
    served.step(1, drafts);
  }
  EXPECT_GE(num_compared, 2u);
}

TEST_P(DraftGoldens, AreTheOraclesDrafts) {
  Served served(GetParam());
  served.start(1, served.golden().num_prompt_tokens);
  served.step(7);
  served.step(static_cast<int32_t>(served.golden().num_prompt_tokens) - 7);
  expect_golden_drafts(served);
  served.end();
  EXPECT_EQ(served.rows().num_rows(), 0);
}

// The prompt as one step, whose states do not wait for drafts.
TEST_P(DraftGoldens, AreTheOraclesDraftsOfAWholePrompt) {
  Served served(GetParam());
  served.start(1, served.golden().num_prompt_tokens);
  served.step(static_cast<int32_t>(served.golden().num_prompt_tokens));
  EXPECT_LE(served.rows().num_rows(), 17);
  expect_golden_drafts(served);
}

// A request that was preempted computes again what the drafter has seen.
TEST_P(DraftGoldens, AreTheOraclesDraftsAfterAPreemption) {
  Served served(GetParam());
  served.start(1, served.golden().num_prompt_tokens);
  served.step(static_cast<int32_t>(served.golden().num_prompt_tokens));
  ASSERT_EQ(served.propose(), served.golden().steps.front().drafts);
  const size_t num_tokens = served.golden().num_prompt_tokens;
  served.start(1, num_tokens);
  served.step(9);
  served.step(static_cast<int32_t>(num_tokens) - 9);
  expect_golden_drafts(served);
}

// Behind a prefix that was in the cache there are drafts too, made of less.
TEST_P(DraftGoldens, GoOnBehindACachedPrefix) {
  Served served(GetParam());
  if (GetParam() == "mtp_qwen") GTEST_SKIP() << "a model with states";
  const auto num_tokens = static_cast<int32_t>(served.golden().num_prompt_tokens);
  served.start(1, static_cast<size_t>(num_tokens));
  served.step(num_tokens);
  served.end();
  served.start(2, static_cast<size_t>(num_tokens), 16);
  served.step(num_tokens - 16);
  EXPECT_EQ(served.propose().size(), static_cast<size_t>(kNumDrafts));
}

INSTANTIATE_TEST_SUITE_P(All, DraftGoldens,
                         ::testing::Values("medusa_original", "medusa_vllm", "eagle",
                                           "eagle_prefix", "eagle3_original", "eagle3_speculators",
                                           "mtp_deepseek", "mtp_glm", "mtp_qwen", "mtp_sparse"),
                         [](const auto& info) { return info.param; });

// Everything that is wrong is one line that says what.
std::string error_of(SpeculativeConfig config,
                     const fs::path& target = goldens() / "models/llama") {
  return make_model_drafter(config, options_of(target), load).status().message();
}

TEST(ModelDrafter, SaysWhatIsWrong) {
  SpeculativeConfig medusa = config_of("medusa_vllm");
  medusa.num_speculative_tokens = 4;
  EXPECT_NE(error_of(medusa).find("expected at most 3, the heads of"), std::string::npos)
      << error_of(medusa);
  const std::string no_mtp = error_of({.method = SpeculativeMethod::kMtp});
  EXPECT_NE(no_mtp.find("expected layers that predict tokens further ahead"), std::string::npos)
      << no_mtp;
  SpeculativeConfig eagle = config_of("eagle");
  eagle.num_speculative_tokens = 0;
  EXPECT_NE(error_of(eagle).find("num_speculative_tokens"), std::string::npos);
  eagle = config_of("eagle3_original");
  eagle.method = SpeculativeMethod::kEagle;
  EXPECT_NE(error_of(eagle).find("tensor"), std::string::npos) << error_of(eagle);
  medusa.model = (goldens() / "models/llama").string();
  EXPECT_NE(error_of(medusa).find("expected Medusa heads"), std::string::npos) << error_of(medusa);
}

// Greedy drafts behind some texts.
std::vector<std::vector<TokenId>> drafts_of(const SpeculativeConfig& config) {
  const auto made = make_model_drafter(config, options_of(goldens() / "models/llama"), load);
  EXPECT_TRUE(made.ok()) << made.status().message();
  std::vector<std::vector<TokenId>> out;
  auto params = std::make_shared<SamplingParams>();
  params->temperature = 0;
  params->max_tokens = 64;
  for (uint64_t i = 1; i <= 40; ++i) {
    Request request;
    request.id = RequestId{i};
    request.params = params;
    for (uint64_t k = 0; k < 4 + i % 9; ++k)
      request.token_ids.push_back(static_cast<TokenId>((i * 37 + k * k * 11) % 90));
    request.num_prompt_tokens = static_cast<int32_t>(request.token_ids.size());
    DraftQuery query{.request = &request, .max_drafts = kNumDrafts};
    made->drafter->propose({&query, 1});
    out.emplace_back(query.token_ids.begin(), query.token_ids.end());
    made->drafter->forget(request.id);
  }
  return out;
}

// The copy says much of what the model itself would say, and leaves no files.
TEST(ModelDrafter, ACopyOfFourBitsIsOftenRight) {
  const test::TempFolder folder;
  setenv("TMPDIR", folder.string().c_str(), 1);
  const auto copy = drafts_of({.method = SpeculativeMethod::kSelf, .num_speculative_tokens = 3});
  unsetenv("TMPDIR");
  EXPECT_TRUE(fs::is_empty(folder.path()));
  const auto model = drafts_of({.method = SpeculativeMethod::kDraftModel,
                                .num_speculative_tokens = 3,
                                .model = (goldens() / "models/llama").string()});
  int num_right = 0;
  for (size_t i = 0; i < copy.size(); ++i) {
    ASSERT_EQ(copy[i].size(), static_cast<size_t>(kNumDrafts));
    num_right += copy[i].front() == model[i].front();
  }
  EXPECT_GT(num_right, 20);
  EXPECT_LT(num_right, 40);  // else it is no copy of 4 bits
}

TEST(ModelDrafter, OnlyFloatWeightsAreCopied) {
  const SpeculativeConfig self{.method = SpeculativeMethod::kSelf, .num_speculative_tokens = 3};
  const std::string error = error_of(self, goldens() / "quant_models/int8_llama");
  EXPECT_NE(error.find("self without num_hidden_layers"), std::string::npos) << error;
  EXPECT_NE(error.find("expected float weights"), std::string::npos) << error;
}

TEST(ModelDrafter, TakesTheNumberThatTheFilesAdvise) {
  SpeculativeConfig config = config_of("eagle3_speculators");
  config.num_speculative_tokens = 0;
  const auto drafter = make_model_drafter(config, options_of(goldens() / "models/llama"), load);
  ASSERT_TRUE(drafter.ok()) << drafter.status().message();
  EXPECT_EQ(drafter->num_speculative_tokens, 3);
}

}  // namespace
}  // namespace quire
