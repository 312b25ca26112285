// These tests run the real scheduler over GpuRunner. Steps that are planned and queued while others
// run must give the answers of one step at a time, whatever requests end, are aborted or are
// preempted in between, whatever blocks are loaded from host memory, and whoever drafts. The file
// is linked twice: with the emulated device, which runs queued work as late as allowed, and with a
// GPU (skipped by name if there is none).
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "exec/gpu/gpu_runner.h"
#include "facade/speculation/model_drafter.h"
#include "kernels/cuda/test/test_device.h"
#include "kv/kv_manager.h"
#include "sched/scheduler.h"
#include "tests/laws/golden_model.h"

namespace quire {
namespace {

constexpr int32_t kVocab = 160;
constexpr int32_t kMaxModelLen = 80;

struct Ask {
  Request request;
  int step = 0;        // the step in which the request arrives
  int abort_step = 0;  // the step in which its client leaves; 0 if it stays
};

struct Answer {
  std::vector<TokenId> token_ids;
  std::vector<TokenLogprobs> logprobs;
  std::vector<TokenLogprobs> prompt_logprobs;
  RequestStatus status = RequestStatus::kWaiting;
};

struct Setup {
  bool async_scheduling = false;
  bool sample_on_device = true;
  int32_t num_blocks = 512;
  int32_t num_host_blocks = 0;
  EmulatedCopies copies = EmulatedCopies::kMixed;
  std::optional<SpeculativeConfig> drafts = {};
};

struct Ran {
  std::map<uint64_t, Answer> answers;
  int64_t num_preemptions = 0;
  int64_t num_loaded = 0;  // blocks loaded from host memory
  int64_t num_drafts = 0;
  int64_t num_accepted_drafts = 0;
};

class System {
 public:
  System(const std::string& model, const Setup& setup) : setup_(setup) {
    ModelRunnerOptions options;
    options.files = test::golden_model(model);
    options.block_size = 8;
    options.max_model_len = kMaxModelLen;
    options.kv_cache_memory_bytes = int64_t{8} << 20;
    options.max_logits_bytes = 5 * kVocab * 4;  // so that the logits of a step take several rounds
    options.threads = 1;
    options.pin_threads = false;
    options.max_num_batched_tokens = kStepTokens;
    options.max_num_seqs = kMaxReqs;
    if (setup.drafts) draft_with(*setup.drafts, options);
    auto runner = load(options);
    QUIRE_CHECK(runner.ok(), "{}", runner.status().message());
    runner_ = std::move(*runner);
    const KvPlan plan{.num_blocks = setup.num_blocks, .num_host_blocks = setup.num_host_blocks};
    QUIRE_CHECK(runner_->initialize(plan).ok());
    QUIRE_CHECK(runner_->warm_up().ok());
  }

  Ran run(const std::vector<Ask>& asks) {
    SchedulerConfig config;
    config.max_model_len = kMaxModelLen;
    config.max_num_batched_tokens = kStepTokens;
    config.max_num_seqs = kMaxReqs;
    const bool overlaps = setup_.async_scheduling && runner_->max_steps_in_flight() > 1;
    config.async_scheduling = overlaps;
    config.num_speculative_tokens = setup_.drafts ? kNumDrafts : 0;
    KvManager kv(runner_->kv_spec(), setup_.num_blocks,
                 {.max_sequence_tokens = kMaxModelLen,
                  .max_step_tokens = config.max_uncommitted_tokens(),
                  .num_host_blocks = setup_.num_host_blocks});
    Scheduler scheduler(config, kv, drafter_.get());
    const size_t most_under_way = overlaps ? 2 : 1;
    Ran ran;
    size_t added = 0;
    size_t num_under_way = 0;
    for (int step = 1; added < asks.size() || scheduler.has_unfinished(); ++step) {
      QUIRE_CHECK(step < 5000, "the run does not end");
      for (; added < asks.size() && asks[added].step <= step; ++added)
        QUIRE_CHECK(scheduler.add(asks[added].request, step).ok());
      for (size_t i = 0; i < added; ++i) {
        const RequestId id = asks[i].request.id;
        if (asks[i].abort_step == step && scheduler.finish(id, RequestStatus::kFinishedAborted))
          ran.answers[id.value].status = RequestStatus::kFinishedAborted;
      }
      const StepPlan& plan = scheduler.schedule(step);
      if (!plan.empty()) {
        const Status submitted = runner_->submit(plan);
        QUIRE_CHECK(submitted.ok(), "{}", submitted.message());
        ++num_under_way;
      }
      if (num_under_way < most_under_way && !plan.empty()) continue;
      if (num_under_way == 0) continue;
      take(scheduler, step, ran);
      --num_under_way;
    }
    for (; num_under_way > 0; --num_under_way) QUIRE_CHECK(runner_->collect().ok());
    EXPECT_TRUE(scheduler.check_integrity().ok());
    ran.num_preemptions = scheduler.stats().num_preemptions;
    ran.num_loaded = kv.stats().num_loaded_total;
    return ran;
  }

  static std::string golden(const std::string& model) {
    return (test::source_dir() / "tests" / "goldens" / "models" / model).string();
  }

 private:
  static constexpr int32_t kNumDrafts = 3;
  static constexpr int32_t kStepTokens = 48;
  static constexpr int32_t kMaxReqs = 7;

  Result<std::unique_ptr<GpuRunner>> load(const ModelRunnerOptions& options) const {
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                           gpu_test::open_test_device({.copies = setup_.copies}));
    return GpuRunner::create(options, {.sample_on_device = setup_.sample_on_device},
                             std::move(device));
  }

  void draft_with(const SpeculativeConfig& config, ModelRunnerOptions& options) {
    if (!config.runs_a_model()) {
      drafter_ = make_drafter(config);
      return;
    }
    const auto load_beside = [&](ModelRunnerOptions beside) -> Result<std::unique_ptr<Executor>> {
      beside.kv_cache_memory_bytes = options.kv_cache_memory_bytes;
      QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<GpuRunner> runner, load(beside));
      return std::unique_ptr<Executor>(std::move(runner));
    };
    Result<ModelDrafter> made = make_model_drafter(config, options, load_beside);
    QUIRE_CHECK(made.ok(), "{}", made.status().message());
    drafter_ = made->drafter;
    options.hidden_rows = made->hidden_rows;
  }

  void take(Scheduler& scheduler, int64_t now_us, Ran& ran) {
    const Result<StepResult> result = runner_->collect();
    QUIRE_CHECK(result.ok(), "{}", result.status().message());
    for (const RequestUpdate& update : scheduler.update(*result, now_us)) {
      Answer& answer = ran.answers[update.id.value];
      append(answer.token_ids, update.new_token_ids);
      ran.num_drafts += update.num_drafts;
      ran.num_accepted_drafts += update.num_accepted_drafts;
      append(answer.logprobs, update.result->logprobs);
      if (!update.result->prompt_logprobs.empty()) {  // they are returned again after a preemption
        answer.prompt_logprobs.resize(static_cast<size_t>(update.result->prompt_logprobs_begin) -
                                      1);
        append(answer.prompt_logprobs, update.result->prompt_logprobs);
      }
      EXPECT_TRUE(update.status.ok()) << update.status.message();
      if (update.finished) answer.status = *update.finished;
    }
  }
  template <typename T, typename From>
  static void append(std::vector<T>& to, const From& from) {
    to.insert(to.end(), from.begin(), from.end());
  }

  Setup setup_;
  std::shared_ptr<Drafter> drafter_;
  std::unique_ptr<GpuRunner> runner_;
};

// Some parameters are for sampling on the device, some are only supported on the host (penalties).
SamplingParams random_params(std::mt19937& rng) {
  SamplingParams params;
  params.max_tokens = static_cast<int32_t>(1 + rng() % 14);
  params.temperature = rng() % 2 ? 0.9f : 0.0f;
  params.seed = rng();
  params.eos_token_ids = {static_cast<TokenId>(rng() % kVocab)};
  params.stop_token_ids = {3, 40, 77, 120};
  params.min_tokens = static_cast<int32_t>(rng() % 3) % (params.max_tokens + 1);
  if (rng() % 2) params.logprobs = static_cast<int32_t>(rng() % 4);
  if (rng() % 5 == 0) params.prompt_logprobs = 1;
  if (rng() % 3 == 0) params.top_p = 0.8f;
  if (rng() % 4 == 0) params.bad_words = {{5, 6}, {17}};
  if (rng() % 4 == 0) params.logit_bias = {{9, 2.5f}, {11, -100.0f}};
  if (rng() % 8 == 0) params.presence_penalty = 0.4f;
  return params;
}

std::vector<Ask> random_load(uint32_t seed, bool with_penalties) {
  std::mt19937 rng(seed);
  std::vector<TokenId> shared(30);
  for (TokenId& id : shared) id = static_cast<TokenId>(rng() % kVocab);
  std::vector<Ask> asks;
  for (int i = 0; i < 14; ++i) {
    Ask ask;
    ask.step = 1 + i / 2 + static_cast<int>(rng() % 2);
    if (!asks.empty()) ask.step = std::max(ask.step, asks.back().step);
    if (rng() % 6 == 0) ask.abort_step = ask.step + 1 + static_cast<int>(rng() % 6);
    Request& request = ask.request;
    request.id = RequestId{static_cast<uint64_t>(i) + 1};
    request.arrival_us = ask.step;
    SamplingParams params = random_params(rng);
    if (!with_penalties) params.presence_penalty = 0.0f;
    request.params = std::make_shared<const SamplingParams>(std::move(params));
    if (rng() % 2) {
      request.token_ids.assign(shared.begin(),
                               shared.begin() + static_cast<std::ptrdiff_t>(rng() % 31));
    }
    for (auto k = 1 + rng() % 12; k > 0; --k)
      request.token_ids.push_back(static_cast<TokenId>(rng() % kVocab));
    asks.push_back(std::move(ask));
  }
  return asks;
}

void expect_same(const std::vector<TokenLogprobs>& a, const std::vector<TokenLogprobs>& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    EXPECT_EQ(a[i].token_id, b[i].token_id);
    EXPECT_EQ(a[i].logprob, b[i].logprob);
    EXPECT_EQ(a[i].rank, b[i].rank);
    EXPECT_EQ(a[i].top, b[i].top);
  }
}

void expect_same(const std::vector<Ask>& asks, const Ran& got, const Ran& want) {
  for (const Ask& ask : asks) {
    const uint64_t id = ask.request.id.value;
    SCOPED_TRACE(testing::Message() << "request " << id);
    const Answer& a = got.answers.at(id);
    const Answer& b = want.answers.at(id);
    // An abort may take effect a token earlier or later.
    const bool cut =
        a.status == RequestStatus::kFinishedAborted || b.status == RequestStatus::kFinishedAborted;
    if (!cut) {
      EXPECT_EQ(a.status, b.status);
      EXPECT_EQ(a.token_ids.size(), b.token_ids.size());
    }
    const auto common = static_cast<ptrdiff_t>(std::min(a.token_ids.size(), b.token_ids.size()));
    EXPECT_TRUE(std::equal(a.token_ids.begin(), a.token_ids.begin() + common, b.token_ids.begin()));
    expect_same(a.logprobs, b.logprobs);
    expect_same(a.prompt_logprobs, b.prompt_logprobs);
  }
}

class GpuOverlap : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto device = gpu_test::open_test_device();
    if (!device.ok()) GTEST_SKIP() << "SKIPPED: " << device.status().message();
  }
};

TEST_F(GpuOverlap, OnAndOffGiveTheSameAnswers) {
  int64_t num_preemptions = 0;
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const std::string model = seed % 2 ? "llama" : "qwen2_window";
    const auto asks = random_load(seed, seed > 2);
    const Ran one_at_a_time = System(model, {}).run(asks);
    const Ran overlapped = System(model, {.async_scheduling = true}).run(asks);
    expect_same(asks, overlapped, one_at_a_time);
    const int32_t few_blocks = seed % 2 ? 18 : 34;  // room for little more than one request
    const Ran tight = System(model, {.async_scheduling = true,
                                     .num_blocks = few_blocks,
                                     .num_host_blocks = 64,
                                     .copies = static_cast<EmulatedCopies>(seed % 3)})
                          .run(asks);
    expect_same(asks, tight, one_at_a_time);
    num_preemptions += tight.num_preemptions;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(num_preemptions, 0);
}

// Prompts have the same beginnings, but so far apart that the shared blocks were evicted and are
// loaded from host memory. The answers must be those of a cache that never evicts, however early or
// late blocks are copied.
TEST_F(GpuOverlap, BlocksFromHostMemoryGiveTheSameAnswers) {
  constexpr int kRequests = 12;
  std::vector<Ask> asks;
  for (int i = 0; i < kRequests; ++i) {
    Ask ask;
    ask.step = 1 + 30 * i;
    ask.request.id = RequestId{static_cast<uint64_t>(i) + 1};
    ask.request.arrival_us = ask.step;
    SamplingParams params;
    params.max_tokens = 12;
    params.temperature = 0.9f;
    params.seed = static_cast<uint64_t>(i);
    params.logprobs = 2;
    params.repetition_penalty = i % 3 == 0 ? 1.3f : 1.0f;
    ask.request.params = std::make_shared<const SamplingParams>(std::move(params));
    for (int k = 0; k < 40; ++k)  // three families of prompts
      ask.request.token_ids.push_back(static_cast<TokenId>((k * 7 + i % 3 * 31) % kVocab));
    ask.request.token_ids.push_back(static_cast<TokenId>(i));
    asks.push_back(std::move(ask));
  }
  for (const char* model : {"llama", "qwen2_window"}) {
    SCOPED_TRACE(model);
    const int32_t few_blocks = std::string(model) == "llama" ? 14 : 26;  // about 7 blocks per group
    const Ran roomy = System(model, {.async_scheduling = true}).run(asks);
    for (const EmulatedCopies when : {EmulatedCopies::kEarly, EmulatedCopies::kLate}) {
      const Ran tight = System(model, {.async_scheduling = true,
                                       .num_blocks = few_blocks,
                                       .num_host_blocks = 64,
                                       .copies = when})
                            .run(asks);
      expect_same(asks, tight, roomy);
      EXPECT_GT(tight.num_loaded, 0);
    }
  }
}

// Drafts come from the request's own text, or from models on a GPU of their own: the same model,
// which is mostly right, its first layer, which is seldom right, and a head that reads the served
// model's states.
TEST_F(GpuOverlap, DraftsGiveTheSameAnswers) {
  struct Case {
    SpeculativeConfig config;
    bool is_mostly_right = false;
  };
  const std::string heads = (test::source_dir() / "tests" / "goldens" / "drafting").string();
  const Case cases[] = {
      {.config = {.method = SpeculativeMethod::kNgram,
                  .num_speculative_tokens = 3,
                  .ngram = {.prompt_lookup_min = 1, .prompt_lookup_max = 3}}},
      {.config = {.method = SpeculativeMethod::kDraftModel,
                  .num_speculative_tokens = 3,
                  .model = System::golden("llama")},
       .is_mostly_right = true},
      {.config = {.method = SpeculativeMethod::kSelf,
                  .num_speculative_tokens = 3,
                  .num_hidden_layers = 1}},
      {.config = {.method = SpeculativeMethod::kEagle3,
                  .num_speculative_tokens = 3,
                  .model = heads + "/eagle3_original"}},
  };
  const auto asks = random_load(3, true);
  const Ran without = System("llama", {.async_scheduling = true}).run(asks);
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << "method " << static_cast<int>(c.config.method));
    const Ran ran = System("llama", {.async_scheduling = true, .drafts = c.config}).run(asks);
    expect_same(asks, ran, without);
    EXPECT_GT(ran.num_drafts, 0);
    if (c.is_mostly_right) {
      EXPECT_GT(2 * ran.num_accepted_drafts, ran.num_drafts);
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST_F(GpuOverlap, TheHostsSamplerGivesTheSameAnswers) {
  const auto asks = random_load(11, true);
  const Ran device = System("llama", {.async_scheduling = true}).run(asks);
  const Ran host = System("llama", {.async_scheduling = true, .sample_on_device = false}).run(asks);
  expect_same(asks, host, device);
}

}  // namespace
}  // namespace quire
