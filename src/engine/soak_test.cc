// Random traffic against a naive expectation: each answer that ends by itself is what the request
// gives alone, whatever the engine had to do around it. QUIRE_SEED replays one seed.
#include <gtest/gtest.h>

#include <random>

#include "engine/testing/engine_test_support.h"
#include "kv/testing/memory_kv_files.h"

namespace quire {
namespace {

using test::Answer;
using test::request;
using test::Rig;

struct Expected {
  GroupId id;
  GenerationRequest request;
  bool may_be_cut = false;  // it may be aborted by the test, time out, or get an injected failure
};

test::RigOptions random_rig(std::mt19937& rng) {
  test::RigOptions options;
  EngineOptions& engine = options.engine;
  const auto pick = [&rng](std::initializer_list<int32_t> values) {
    return *(values.begin() + rng() % values.size());
  };
  options.fake.kv_spec.block_size = pick({1, 3, 4, 16});
  options.fake.vocab_size = pick({5, 200, 1000});
  options.fake.step_us = 1000;
  if (rng() % 2) {
    options.fake.kv_spec.groups.push_back(
        {.kind = KvKind::kSlidingWindow, .sliding_window = pick({1, 5, 20}), .layers = {}});
  }
  engine.scheduler.max_model_len = 96;
  engine.scheduler.max_num_batched_tokens = pick({4, 16, 64, 512});
  engine.scheduler.max_num_seqs = pick({1, 3, 16});
  engine.scheduler.long_prefill_token_threshold = pick({0, 0, 7});
  engine.scheduler.policy = static_cast<SchedulingPolicy>(rng() % 3);
  engine.scheduler.reserve_full_isl = rng() % 4 != 0;
  engine.scheduler.max_num_queued_reqs = pick({8, 4096});
  engine.kv.enable_prefix_caching = rng() % 4 != 0;
  engine.kv.residency_sample_rate = 0.5;
  engine.kv.enable_events = rng() % 2 != 0;
  engine.log_interval_us = 0;
  engine.stream = {.max_unread_deltas = pick({1, 4, 64}), .max_unread_bytes = 1 << 20};
  const int32_t groups = static_cast<int32_t>(options.fake.kv_spec.groups.size());
  const int32_t one_request = (96 / options.fake.kv_spec.block_size + 2) * groups;
  engine.num_blocks = 1 + one_request * pick({1, 2, 6});
  options.fake.keeps_blocks_on_host = rng() % 2 != 0;
  engine.kv_offload_bytes = options.fake.kv_spec.block_bytes * pick({0, 5, 40, 400});
  return options;
}

GenerationRequest random_request(std::mt19937& rng, int32_t vocab_size, int64_t now_us,
                                 bool hands_over) {
  // There are few distinct prompts, so that prefixes match often.
  std::mt19937 text(rng() % 4);
  std::vector<TokenId> prompt(1 + rng() % 70);
  for (TokenId& id : prompt) id = static_cast<TokenId>(text() % static_cast<uint32_t>(vocab_size));
  if (rng() % 3 == 0) prompt.back() = 0;
  GenerationRequest r = request(std::move(prompt), static_cast<int32_t>(rng() % 40));
  r.params.seed = rng() % 3;
  r.params.temperature = rng() % 2 ? 1.0f : 0.0f;
  r.params.ignore_eos = rng() % 2 != 0;
  r.params.eos_token_ids = {1};
  if (rng() % 4 == 0) r.params.stop_token_ids = {2, 3};
  if (rng() % 4 == 0) r.params.min_tokens = std::min(r.params.max_tokens, 5);
  if (rng() % 4 == 0) r.params.logprobs = 2;
  if (rng() % 6 == 0) r.params.prompt_logprobs = 1;
  if (rng() % 5 == 0) r.num_choices = 1 + static_cast<int32_t>(rng() % 4);
  if (rng() % 6 == 0) r.timeout_us = 1000 + static_cast<int64_t>(rng() % 60) * 1000;
  if (rng() % 6 == 0) r.cache_keys.salt = "tenant";
  r.hands_over_kv = hands_over && rng() % 3 == 0;
  r.priority = static_cast<int32_t>(rng() % 3);
  r.arrival_us = now_us;
  return r;
}

void check_answer(Rig& rig, const Expected& expected) {
  for (int32_t i = 0; i < expected.request.num_choices; ++i) {
    SCOPED_TRACE(fmt::format("request {} choice {}", expected.id, i));
    const Answer& answer = rig.answer(expected.id, static_cast<size_t>(i));
    auto params = expected.request.params;
    params.seed = choice_seed(*params.seed, i);
    const auto& prompt = expected.request.prompt_token_ids;
    params.max_tokens = std::min(params.max_tokens, 96 - static_cast<int32_t>(prompt.size()));
    params.min_tokens = std::min(params.min_tokens, params.max_tokens);
    auto output = rig.fake().expected_output(prompt, params);
    ASSERT_TRUE(answer.finish_reason.has_value());
    const bool cut = *answer.finish_reason == FinishReason::kError ||
                     *answer.finish_reason == FinishReason::kAbort;
    if (cut) {
      ASSERT_TRUE(expected.may_be_cut) << answer.status.message();
      ASSERT_LE(answer.token_ids.size(), output.size());
      output.resize(answer.token_ids.size());
    }
    ASSERT_EQ(answer.token_ids, output);
    if (params.logprobs) {
      ASSERT_EQ(answer.logprobs.size(), output.size());
      for (size_t k = 0; k < output.size(); ++k) {
        ASSERT_EQ(answer.logprobs[k].token_id, output[k]);
      }
    }
    if (i == 0 && params.prompt_logprobs && !cut) {
      ASSERT_EQ(answer.prompt_logprobs.size(), prompt.size() - 1);
      for (size_t k = 1; k < prompt.size(); ++k) {
        ASSERT_EQ(answer.prompt_logprobs[k - 1].token_id, prompt[k]);
      }
    }
  }
}

// Events that must occur in all seeds together for the soak to mean anything.
struct Met {
  uint64_t preemptions = 0;
  uint64_t cached_tokens = 0;
  uint64_t evictions = 0;
  uint64_t loads = 0;  // of blocks from host memory
  int64_t tokens_from_files = 0;
  int64_t file_failures = 0;
  int64_t handovers = 0;
  uint64_t failed_steps = 0;
  uint64_t deadlines = 0;
  uint64_t aborts = 0;
  uint64_t choices = 0;
};

// Steps run one by one, are planned while another one runs, or are three at once with disjoint
// requests.
enum class StepOrder { kOne, kAsync, kPipeline };

// Some steps fail, and some requests of other steps.
void add_failures(test::RigOptions& options, std::mt19937& faults) {
  options.fake.fail_step = [&faults](const StepPlan&) {
    return faults() % 40 == 0 ? internal_error("injected") : Status();
  };
  options.fake.fail_request = [&faults](RequestId, uint64_t) {
    return faults() % 100 == 0 ? internal_error("injected") : Status();
  };
}

void add_files(test::RigOptions& options, test::MemoryDisk& disk, uint32_t seed,
               std::mt19937& rng) {
  options.engine.kv_offload_bytes =
      options.fake.kv_spec.block_bytes * static_cast<int64_t>(4 + rng() % 100);
  const int32_t block_size = options.fake.kv_spec.block_size;
  const int32_t cell_tokens = block_size % 2 == 0 ? 2 : 1;
  options.engine.kv.files = {.capacity_bytes = static_cast<int64_t>(5 + rng() % 300),
                             .run_blocks = static_cast<int32_t>(1 + rng() % 4),
                             .cell_tokens = cell_tokens};
  options.engine.kv_handover = {.gives = true, .lease_us = 20'000};
  options.engine.open_kv_files =
      [&disk, seed, block_cells = block_size / cell_tokens](
          const KvHostMemory& memory) -> Result<std::unique_ptr<KvFiles>> {
    return std::unique_ptr<KvFiles>(new test::MemoryKvFiles(disk, memory, block_cells, seed));
  };
}

struct Traffic {
  int32_t vocab_size = 0;
  bool failures = false;   // some are injected
  bool impatient = false;  // clients leave
  bool hands_over = false;
};

void submit_one(Rig& rig, std::mt19937& rng, const Traffic& traffic, std::vector<Expected>& sent) {
  auto r = random_request(rng, traffic.vocab_size, rig.clock().now_us(), traffic.hands_over);
  const auto id = rig.submit(r);
  if (!id.ok()) {
    ASSERT_TRUE(id.status().code() == StatusCode::kResourceExhausted ||
                id.status().code() == StatusCode::kTooLarge)
        << id.status().message();
    return;
  }
  sent.push_back({*id, r, traffic.failures || r.timeout_us.has_value()});
}

void run_traffic(Rig& rig, std::mt19937& rng, const Traffic& traffic, std::vector<Expected>& sent) {
  for (int i = 0; i < 300; ++i) {
    for (auto burst = rng() % 3; burst > 0 && i < 200; --burst)
      ASSERT_NO_FATAL_FAILURE(submit_one(rig, rng, traffic, sent));
    if (traffic.impatient && !sent.empty() && rng() % 10 == 0) {
      Expected& victim = sent[rng() % sent.size()];
      victim.may_be_cut = true;
      rig.engine().abort(victim.id);
    }
    rig.engine().step();
    if (rng() % 3 == 0) rig.read();
    if (i % 16 == 0) {
      const Status integrity = rig.engine().check_integrity();
      ASSERT_TRUE(integrity.ok()) << integrity.message();
    }
  }
  rig.run();
  rig.read();
}

void check_stats(const EngineStats& s, uint64_t choices, Met& met) {
  EXPECT_EQ(s.request_success_stop + s.request_success_length + s.request_success_abort +
                s.request_success_error,
            choices);
  EXPECT_EQ(s.num_requests_waiting + s.num_requests_running, 0);
  met.preemptions += s.num_preemptions;
  met.cached_tokens += s.prompt_tokens_cached;
  met.evictions += s.kv_evictions;
  met.loads += s.kv_blocks_loaded;
  if (s.kv_files) {
    met.tokens_from_files += s.kv_files->hit_tokens;
    met.handovers += s.kv_files->handovers;
    met.file_failures += s.kv_files->load_failures + s.kv_files->store_failures;
  }
  met.failed_steps += s.steps_failed;
  met.deadlines += s.deadlines_exceeded;
  met.aborts += s.request_success_abort;
  met.choices += choices;
}

void soak(uint32_t seed, StepOrder order, Met& met) {
  std::mt19937 rng(seed);
  auto options = random_rig(rng);
  options.engine.scheduler.async_scheduling = order == StepOrder::kAsync;
  options.fake.max_steps_in_flight = order == StepOrder::kPipeline ? 3 : 2;
  options.fake.feeds_its_samples = order != StepOrder::kPipeline;
  Traffic traffic{.vocab_size = options.fake.vocab_size};
  std::mt19937 faults(seed + 1);
  traffic.failures = rng() % 3 == 0;
  if (traffic.failures) add_failures(options, faults);
  traffic.impatient = rng() % 2 != 0;
  test::MemoryDisk disk;
  if (options.fake.keeps_blocks_on_host && rng() % 2 != 0) add_files(options, disk, seed, rng);
  traffic.hands_over = options.engine.kv_handover.gives;
  Rig rig(options);
  std::vector<Expected> sent;
  ASSERT_NO_FATAL_FAILURE(run_traffic(rig, rng, traffic, sent));
  ASSERT_EQ(rig.fake().violations(), std::vector<std::string>{});
  uint64_t choices = 0;
  for (const Expected& expected : sent) {
    check_answer(rig, expected);
    choices += static_cast<uint64_t>(expected.request.num_choices);
  }
  check_stats(rig.engine().stats(), choices, met);
}

void soak_all(StepOrder order) {
  const char* replay = std::getenv("QUIRE_SEED");
  const uint32_t first = replay ? static_cast<uint32_t>(std::atoi(replay)) : 0;
  const uint32_t last = replay ? first + 1 : 60;
  Met met;
  for (uint32_t seed = first; seed < last; ++seed) {
    SCOPED_TRACE(fmt::format("QUIRE_SEED={}", seed));
    soak(seed, order, met);
    if (testing::Test::HasFailure()) return;
  }
  if (replay) return;
  EXPECT_GT(met.choices, 1000u);
  EXPECT_GT(met.preemptions, 100u);
  EXPECT_GT(met.cached_tokens, 1000u);
  EXPECT_GT(met.evictions, 100u);
  EXPECT_GT(met.loads, 100u);
  EXPECT_GT(met.tokens_from_files, 1000);
  EXPECT_GT(met.file_failures, 10);
  EXPECT_GT(met.handovers, 100);
  EXPECT_GT(met.failed_steps, 10u);
  EXPECT_GT(met.deadlines, 100u);
  EXPECT_GT(met.aborts, 100u);
  fmt::print(
      "choices {}, preemptions {}, cached tokens {}, evictions {}, failed steps {}, deadlines {}, "
      "aborts {}\n",
      met.choices, met.preemptions, met.cached_tokens, met.evictions, met.failed_steps,
      met.deadlines, met.aborts);
}

TEST(EngineSoak, AnswersAreThoseOfARequestAlone) { soak_all(StepOrder::kOne); }

// Each step is planned and submitted before the result of the previous one is there.
TEST(EngineSoak, OverlappedStepsGiveTheSameAnswers) { soak_all(StepOrder::kAsync); }

TEST(EngineSoak, AnswersOfAPipelineAreTheSame) { soak_all(StepOrder::kPipeline); }

}  // namespace
}  // namespace quire
