#include "facade/testing/draft_golden_support.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "exec/testing/golden_support.h"
#include "tests/support/test_data.h"

namespace quire::test {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kNumBlocks = 64;

std::vector<TokenId> ids_of(const boost::json::value& value) {
  return boost::json::value_to<std::vector<TokenId>>(value);
}

DraftGolden read_draft_golden(const std::string& name) {
  const auto json =
      boost::json::parse(read_file(all_goldens() / "drafting" / name / "golden.json"));
  DraftGolden golden{
      .target = all_goldens() / std::string(json.at("target").as_string()),
      .token_ids = ids_of(json.at("token_ids")),
      .num_prompt_tokens = static_cast<size_t>(json.at("num_prompt_tokens").as_int64())};
  for (const boost::json::value& step : json.at("steps").as_array()) {
    golden.steps.push_back(
        {static_cast<size_t>(step.at("num_tokens").as_int64()), ids_of(step.at("drafts"))});
  }
  return golden;
}

}  // namespace

fs::path all_goldens() { return golden_dir("llama").parent_path().parent_path(); }

SpeculativeConfig draft_config(const std::string& name) {
  SpeculativeConfig config{.num_speculative_tokens = kNumDrafts};
  const std::string kind = name.substr(0, name.find('_'));
  config.method = kind == "medusa"   ? SpeculativeMethod::kMedusa
                  : kind == "eagle"  ? SpeculativeMethod::kEagle
                  : kind == "eagle3" ? SpeculativeMethod::kEagle3
                                     : SpeculativeMethod::kMtp;
  if (kind != "mtp") config.model = (all_goldens() / "drafting" / name).string();
  return config;
}

ModelRunnerOptions draft_options(const fs::path& target) {
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

Served::Served(const std::string& name, const LoadExecutor& load)
    : golden_(read_draft_golden(name)) {
  ModelRunnerOptions options = draft_options(golden_.target);
  Result<ModelDrafter> drafter = make_model_drafter(draft_config(name), options, load);
  EXPECT_TRUE(drafter.ok()) << drafter.status().message();
  drafter_ = std::move(*drafter);
  options.hidden_rows = drafter_.hidden_rows;
  Result<std::unique_ptr<Executor>> runner = load(options);
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  runner_ = std::move(*runner);
  EXPECT_TRUE(runner_->initialize({.num_blocks = kNumBlocks, .num_state_blocks = kNumBlocks}).ok());
  verifies_ = !runner_->kv_spec().uses(KvPool::kState);
}

void Served::start(uint64_t id, size_t num_tokens, int32_t computed) {
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

void Served::step(int32_t num_tokens, std::span<const TokenId> drafts) {
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

std::vector<TokenId> Served::propose() {
  DraftQuery query{.request = &request_, .max_drafts = kNumDrafts};
  drafter().propose({&query, 1});
  return {query.token_ids.begin(), query.token_ids.end()};
}

void Served::end() {
  drafter().forget(request_.id);
  plan_.dropped.push_back(request_.id);
}

}  // namespace quire::test
