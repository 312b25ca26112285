// Law L4 for speculation: over a million tokens, whatever the drafter and whatever else the engine
// has to do, each request gives what it gives alone in an engine without drafts.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "draft/ngram_drafter.h"
#include "draft/suffix_drafter.h"
#include "engine/testing/engine_test_support.h"
#include "engine/testing/taught_drafter.h"

namespace quire {
namespace {

using test::Answer;
using test::Rig;

constexpr int32_t kMaxModelLen = 320;
constexpr int32_t kNumDrafts = 6;
constexpr size_t kPoolSize = 48;
constexpr uint64_t kTokensPerDrafter = 210'000;

// Requests that are sent again and again, with the answers that each of their choices gives alone.
struct Pool {
  std::vector<GenerationRequest> requests;
  std::vector<std::vector<Answer>> answers;
};

std::shared_ptr<const Tokenizer> tokenizer() {
  static const auto made = test::byte_tokenizer({"ab", "cd"});
  return made;
}

GenerationRequest random_request(std::mt19937& rng) {
  const auto vocab_size = static_cast<uint32_t>(tokenizer()->vocab_size());
  std::mt19937 text(rng() % 6);  // few distinct beginnings, so that prefixes match often
  std::vector<TokenId> prompt(1 + rng() % 90);
  for (TokenId& id : prompt) id = static_cast<TokenId>(text() % (vocab_size - 1));
  GenerationRequest r = test::request(std::move(prompt), 40 + static_cast<int32_t>(rng() % 180));
  constexpr float kTemperatures[] = {0.0f, 0.7f, 1.0f, 1.5f};
  r.params.temperature = kTemperatures[rng() % 4];
  r.params.seed = rng() % 4;
  if (rng() % 3 == 0) r.params.frequency_penalty = 0.5f;
  r.params.ignore_eos = rng() % 2 != 0;
  r.params.eos_token_ids = {static_cast<TokenId>(vocab_size) - 1};
  if (rng() % 4 == 0) r.params.stop_token_ids = {7};
  if (rng() % 5 == 0) r.params.stop = {"zq", "ab"};
  if (rng() % 4 == 0) r.params.min_tokens = 20;
  if (rng() % 4 == 0) r.params.logprobs = 1;
  if (rng() % 6 == 0) r.num_choices = 2 + static_cast<int32_t>(rng() % 2);
  if (rng() % 5 == 0) r.cache_keys.salt = "tenant";
  return r;
}

test::RigOptions rig_options() {
  auto options = test::small_rig();
  options.tokenizer = tokenizer();
  options.fake.vocab_size = tokenizer()->vocab_size();
  options.engine.scheduler.max_model_len = kMaxModelLen;
  options.engine.num_blocks = 400;
  return options;
}

Pool make_pool(std::mt19937& rng) {
  Pool pool;
  Rig alone(rig_options());
  for (size_t i = 0; i < kPoolSize; ++i) {
    GenerationRequest r = random_request(rng);
    const auto id = alone.submit(r);
    EXPECT_TRUE(id.ok()) << id.status().message();
    alone.run();
    pool.requests.push_back(std::move(r));
    pool.answers.push_back(alone.client(*id).answers);
  }
  return pool;
}

// A drafter that has the pool's answers. `percent_right` of its drafts are from these; the others
// are any tokens, including those that end a text. With `is_hostile` the last draft of each run is
// always wrong, often no token at all, and there are as many drafts as allowed.
class PoolDrafter final : public test::TaughtDrafter {
 public:
  PoolDrafter(const Pool& pool, int32_t percent_right, bool is_hostile)
      : percent_right_(percent_right), is_hostile_(is_hostile) {
    for (size_t i = 0; i < pool.requests.size(); ++i) {
      const GenerationRequest& r = pool.requests[i];
      for (size_t choice = 0; choice < pool.answers[i].size(); ++choice) {
        teach(r.prompt_token_ids, choice_seed(*r.params.seed, static_cast<int32_t>(choice)),
              pool.answers[i][choice].token_ids);
      }
    }
  }

 private:
  void guess(std::span<const TokenId> answer, size_t place, int32_t max_drafts,
             std::vector<TokenId>& drafts) override {
    for (int32_t i = 0; i < max_drafts; ++i, ++place) {
      const bool is_right = place < answer.size() && hits(percent_right_);
      drafts.push_back(is_right ? answer[place] : stranger());
    }
    if (is_hostile_ && !drafts.empty()) drafts.back() = random() % 2 ? -1 : (TokenId{1} << 30);
  }
  TokenId stranger() {
    const auto vocab_size = static_cast<uint32_t>(tokenizer()->vocab_size());
    return random() % 4 == 0 ? static_cast<TokenId>(vocab_size) - 1
                             : static_cast<TokenId>(random() % vocab_size);
  }

  const int32_t percent_right_;
  const bool is_hostile_;
};

enum class Kind { kMostlyRight, kHostile, kAlwaysWrong, kSuffix, kNgram };

std::shared_ptr<Drafter> make_drafter(Kind kind, const Pool& pool) {
  switch (kind) {
    case Kind::kMostlyRight:
      return std::make_shared<PoolDrafter>(pool, 85, false);
    case Kind::kHostile:
      return std::make_shared<PoolDrafter>(pool, 97, true);
    case Kind::kAlwaysWrong:
      return std::make_shared<PoolDrafter>(pool, 0, false);
    case Kind::kSuffix:
      return std::make_shared<SuffixDrafter>(SuffixDrafter::Options{});
    case Kind::kNgram:
      return std::make_shared<NgramDrafter>(
          NgramDrafter::Options{.prompt_lookup_min = 1, .prompt_lookup_max = 3});
  }
  return nullptr;
}

test::RigOptions random_rig(std::mt19937& rng) {
  const auto pick = [&rng](std::initializer_list<int32_t> values) {
    return *(values.begin() + rng() % values.size());
  };
  auto options = rig_options();
  options.fake.kv_spec.block_size = pick({3, 4, 16});
  if (rng() % 2) {
    options.fake.kv_spec.groups.push_back(
        {.kind = KvKind::kSlidingWindow, .sliding_window = pick({5, 20}), .layers = {}});
  }
  options.fake.max_steps_in_flight = pick({1, 2});
  // Some engines verify the KV at every step; the others run more tokens in the same time.
  options.fake.verify_kv = rng() % 4 == 0;
  EngineOptions& engine = options.engine;
  engine.scheduler.async_scheduling = options.fake.max_steps_in_flight > 1;
  engine.scheduler.max_num_batched_tokens = pick({16, 64, 512});
  engine.scheduler.max_num_seqs = pick({3, 12});
  engine.scheduler.long_prefill_token_threshold = pick({0, 7});
  engine.scheduler.num_speculative_tokens = kNumDrafts;
  engine.kv.enable_prefix_caching = rng() % 3 != 0;
  engine.stream = {.max_unread_deltas = 1024, .max_unread_bytes = 1 << 22};
  const auto groups = static_cast<int32_t>(options.fake.kv_spec.groups.size());
  engine.num_blocks =
      1 + (kMaxModelLen / options.fake.kv_spec.block_size + 2) * groups * pick({1, 3});
  return options;
}

void expect_same(const Answer& got, const Answer& want) {
  ASSERT_EQ(got.token_ids, want.token_ids) << got.status.message();
  ASSERT_EQ(got.text, want.text);
  ASSERT_EQ(got.finish_reason, want.finish_reason);
  ASSERT_EQ(got.stop_reason, want.stop_reason);
  ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
  for (size_t i = 0; i < got.logprobs.size(); ++i) {
    ASSERT_EQ(got.logprobs[i].token_id, want.logprobs[i].token_id);
    ASSERT_EQ(got.logprobs[i].logprob, want.logprobs[i].logprob);
  }
}

// Events that must occur in all runs together for the test to mean anything.
struct Met {
  uint64_t tokens = 0, preemptions = 0, cached_tokens = 0, drafts = 0, accepted = 0;
};

// Runs one engine with requests of the pool, one after the other and together.
void run_traffic(Kind kind, const Pool& pool, uint32_t seed, Met& met) {
  std::mt19937 rng(seed);
  auto options = random_rig(rng);
  options.engine.drafter = make_drafter(kind, pool);
  Rig rig(options);
  std::vector<std::pair<GroupId, size_t>> asked;
  for (int wave = 0; wave < 12; ++wave) {
    for (auto left = 1 + rng() % 12; left > 0; --left) {
      const size_t index = rng() % pool.requests.size();
      const auto id = rig.submit(pool.requests[index]);
      ASSERT_TRUE(id.ok()) << id.status().message();
      asked.emplace_back(*id, index);
    }
    for (auto steps = rng() % 60; steps > 0 && rig.engine().has_unfinished(); --steps) {
      rig.engine().step();
      rig.read();
    }
    if (wave % 4 == 3) rig.run();
  }
  rig.run();
  for (const auto& [id, index] : asked) {
    SCOPED_TRACE(fmt::format("seed {}, request {} of the pool", seed, index));
    for (size_t choice = 0; choice < pool.answers[index].size(); ++choice) {
      expect_same(rig.answer(id, choice), pool.answers[index][choice]);
      if (::testing::Test::HasFatalFailure()) return;
      met.cached_tokens += static_cast<uint64_t>(rig.answer(id, choice).num_cached_tokens);
    }
  }
  const EngineStats stats = rig.engine().stats();
  met.tokens += stats.generation_tokens;
  met.preemptions += stats.num_preemptions;
  met.drafts += stats.spec_decode_num_draft_tokens;
  met.accepted += stats.spec_decode_num_accepted_tokens;
}

class SpeculationLaw : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Drafters, SpeculationLaw,
                         ::testing::Values(Kind::kMostlyRight, Kind::kHostile, Kind::kAlwaysWrong,
                                           Kind::kSuffix, Kind::kNgram));

TEST_P(SpeculationLaw, NoTokenChangesOverAMillion) {
  Met met;
  for (uint32_t seed = 0; met.tokens < kTokensPerDrafter; ++seed) {
    std::mt19937 rng(1000 + seed / 4);
    const Pool pool = make_pool(rng);
    for (uint32_t run = 0; run < 4; ++run) run_traffic(GetParam(), pool, seed * 4 + run, met);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(met.preemptions, 0u);
  EXPECT_GT(met.cached_tokens, 0u);
  EXPECT_GT(met.drafts, 1000u);
  // Texts made of hashes hardly repeat themselves, and n-grams can only find repetitions.
  const bool is_often_right = GetParam() != Kind::kAlwaysWrong && GetParam() != Kind::kNgram;
  EXPECT_GT(met.accepted, is_often_right ? 10'000u : 0u);
  RecordProperty("tokens", static_cast<int>(met.tokens));
}

}  // namespace
}  // namespace quire
