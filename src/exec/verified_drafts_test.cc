// Sampling the rows of a step with drafts gives what sampling one token after the other gives, with
// every sampling parameter and with right and wrong drafts.
#include <gtest/gtest.h>

#include <random>

#include "base/rng.h"
#include "exec/logits_stage.h"

namespace quire {
namespace {

constexpr int32_t kVocab = 48;
constexpr int32_t kMaxLen = 64;
constexpr int32_t kMaxDrafts = 6;

// Fills in logits that are a function of the tokens before.
void fill_logits(std::span<const TokenId> context, std::span<float> logits) {
  uint64_t key = 0;
  for (const TokenId id : context) key = key * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(id) + 1;
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = 8.0f * uniform_open(key, i, 0) - (i % 5 == 0 ? 4.0f : 0.0f);
}

// One step of a request that starts anew in it, as after a preemption.
class Step {
 public:
  Step()
      : table_(kVocab, kMaxLen + kMaxDrafts + 1, 1),
        batch_({.max_tokens = 16, .max_reqs = 2, .max_seq_len = kMaxLen + 16, .max_logit_rows = 8},
               kv()),
        team_(*ThreadTeam::create({.num_threads = 1})),
        logits_(8 * kVocab),
        stage_([this](std::span<const int32_t> rows) { return compute(rows); }, {}, team_, logits_,
               kVocab, 8) {}

  RequestStepResult run(const std::vector<TokenId>& text, int32_t num_prompt_tokens,
                        std::shared_ptr<const SamplingParams> params,
                        const std::vector<TokenId>& drafts) {
    text_ = text;
    text_.insert(text_.end(), drafts.begin(), drafts.end());
    num_known_ = text.size();
    const auto num_drafts = static_cast<int32_t>(drafts.size());
    StepPlan plan;
    if (id_ > 0) plan.dropped.push_back(RequestId{id_});
    const RequestId id{++id_};
    plan.new_requests.push_back({.id = id,
                                 .token_ids = text,
                                 .num_prompt_tokens = num_prompt_tokens,
                                 .params = std::move(params)});
    plan.scheduled.push_back({.id = id,
                              .num_computed_tokens = static_cast<int32_t>(text.size()) - 1,
                              .num_scheduled_tokens = 1 + num_drafts,
                              .num_drafts = num_drafts});
    plan.draft_token_ids = drafts;
    plan.total_num_scheduled_tokens = 1 + num_drafts;
    for (int32_t block = 0; block < 5; ++block)
      plan.block_updates.push_back({0, 0, block, BlockId{1 + block}});
    const int32_t num_blocks[] = {8};
    EXPECT_TRUE(table_.apply(plan, num_blocks, 8).ok());
    const Status built = batch_.build(plan, table_);
    EXPECT_TRUE(built.ok()) << built.message();
    std::vector<RequestStepResult> results;
    batch_.start_results(plan, results);
    StepTimings timings;
    EXPECT_TRUE(stage_.run(batch_, results, {}, timings).ok());
    return results.at(0);
  }

 private:
  static KvSpec kv() {
    KvSpec kv;
    kv.block_size = 16;
    kv.groups.push_back({.kind = KvKind::kFull, .layers = {}});
    return kv;
  }
  // Computes row i of the step: the one behind the known text and i drafts.
  Status compute(std::span<const int32_t> rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto end = num_known_ + static_cast<size_t>(rows[i]);
      fill_logits(std::span(text_).first(end), std::span(logits_).subspan(i * kVocab, kVocab));
    }
    return {};
  }

  RequestTable table_;
  InputBatch batch_;
  ThreadTeam team_;
  std::vector<float> logits_;
  LogitsStage stage_;
  std::vector<TokenId> text_;
  size_t num_known_ = 0;
  uint64_t id_ = 0;
};

std::shared_ptr<const SamplingParams> random_params(std::mt19937& rng) {
  auto params = std::make_shared<SamplingParams>();
  const auto one_in = [&rng](uint32_t n) { return rng() % n == 0; };
  constexpr float kTemperatures[] = {0.0f, 0.6f, 1.0f, 1.7f};
  params->temperature = kTemperatures[rng() % 4];
  params->seed = rng();
  params->max_tokens = kMaxLen;
  params->eos_token_ids = {3};
  if (one_in(2)) params->repetition_penalty = 1.3f;
  if (one_in(2)) params->frequency_penalty = 0.7f;
  if (one_in(3)) params->presence_penalty = -0.4f;
  if (one_in(3)) params->top_k = 7;
  if (one_in(3)) params->top_p = 0.8f;
  if (one_in(4)) params->min_p = 0.05f;
  if (one_in(3)) params->logit_bias = {{5, 4.0f}, {6, -3.0f}};
  if (one_in(3)) params->bad_words = {{5}, {7, 8}, {1, 2, 9}};
  if (one_in(3)) params->min_tokens = 20;
  if (one_in(4)) params->stop_token_ids = {11};
  if (one_in(3)) params->logprobs = 2;
  if (one_in(5)) params->allowed_token_ids = {{1, 2, 3, 5, 7, 8, 9, 11, 20, 30, 40}};
  return params;
}

// Generates to the end of the text: a step adds the accepted drafts and one more token.
std::vector<TokenId> generate(Step& step, std::vector<TokenId> text,
                              const std::shared_ptr<const SamplingParams>& params,
                              const std::vector<TokenId>& known, int percent_right,
                              std::vector<float>& logprobs, int64_t& num_accepted) {
  std::mt19937 rng(static_cast<uint32_t>(percent_right));
  const auto num_prompt = static_cast<int32_t>(text.size());
  while (std::ssize(text) < kMaxLen) {
    std::vector<TokenId> drafts;
    const size_t room = std::min<size_t>(kMaxDrafts, kMaxLen - 1 - text.size());
    for (size_t i = 0; i < room && percent_right >= 0; ++i) {
      const size_t place = text.size() + i;
      const bool is_right = place < known.size() && static_cast<int>(rng() % 100) < percent_right;
      drafts.push_back(is_right ? known[place] : static_cast<TokenId>(rng() % kVocab));
    }
    const RequestStepResult result = step.run(text, num_prompt, params, drafts);
    EXPECT_TRUE(result.status.ok()) << result.status.message();
    if (result.sampled_token_ids.empty()) return {};
    num_accepted += std::ssize(result.sampled_token_ids) - 1;
    const auto& sampled = result.sampled_token_ids;
    text.insert(text.end(), sampled.begin(), sampled.end());
    for (const TokenLogprobs& entry : result.logprobs) logprobs.push_back(entry.logprob);
  }
  return text;
}

TEST(VerifiedDrafts, GiveWhatOneTokenAfterTheOtherGives) {
  Step step;
  std::mt19937 rng(1);
  int64_t num_accepted = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const auto params = random_params(rng);
    std::vector<TokenId> prompt(1 + rng() % 12);
    for (TokenId& id : prompt) id = static_cast<TokenId>(rng() % kVocab);
    std::vector<float> logprobs;
    int64_t none = 0;
    const auto text = generate(step, prompt, params, {}, -1, logprobs, none);
    ASSERT_EQ(text.size(), size_t{kMaxLen});
    for (const int percent_right : {0, 60, 95, 100}) {
      std::vector<float> with;
      ASSERT_EQ(generate(step, prompt, params, text, percent_right, with, num_accepted), text);
      ASSERT_EQ(with, logprobs);
    }
  }
  EXPECT_GT(num_accepted, 10'000);
}

}  // namespace
}  // namespace quire
