// Whole-scheduler runs on random configurations, models and workloads over an executor that checks
// what it reads. Asserted: S-1 .. S-9 and KV-1 .. KV-7 at every step, and that every request's
// output is what it gets alone (L4).
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "sched/scheduler.h"
#include "sched/testing/content_executor.h"

namespace quire {
namespace {

using Tokens = std::vector<TokenId>;
constexpr int32_t kSmallVocab = 40;

// Properties of a run that are not chosen at random.
struct RunKind {
  bool async_scheduling = false;
  bool drafts = false;
  bool states = false;
  bool media = false;
  bool pipeline = false;
};

class RandomRun : private Drafter {
 public:
  explicit RandomRun(uint32_t seed, RunKind kind = {})
      : rng_(seed),
        draft_rng_(seed),
        async_scheduling_(kind.async_scheduling),
        pipeline_(kind.pipeline),
        max_drafts_(kind.drafts ? pick(1, 7) : 0),
        draft_accuracy_(pick(0, 10)),
        has_media_(kind.media),
        spec_(random_spec(kind.states)),
        config_(random_config()),
        num_blocks_(random_num_blocks(KvPool::kAttention)),
        num_state_blocks_(kind.states ? random_num_blocks(KvPool::kState) : 0),
        kv_(spec_, num_blocks_, kv_options()),
        scheduler_(config_, kv_, kind.drafts ? this : nullptr),
        executor_(spec_, num_blocks_, kSmallVocab, num_state_blocks_) {
    if (config_.media_is_bidirectional) executor_.keep_media_whole();
  }

  void run() {
    const int32_t num_requests = pick(1, 40);
    const int32_t abort_rate = pick(0, 1) * 30;  // per mille and step
    int32_t num_idle = 0;
    for (int32_t step = 0; step < 20000; ++step) {
      now_ += pick(1, 2000);
      if (num_added_ < num_requests && pick(0, 2) == 0) add_some(num_requests);
      if (pick(0, 1) == 0) collect_expired();
      hold_some();
      const StepPlan& plan = scheduler_.schedule(now_);
      check_plan(plan);
      if (plan.empty() && !pending_.empty()) {
        take_result();
        continue;
      }
      if (plan.empty()) {
        ASSERT_LT(++num_idle, 200) << "S-6: nothing moves, " << scheduler_.num_waiting() << " wait";
        if (num_added_ == num_requests && !scheduler_.has_unfinished()) break;
        continue;
      }
      num_idle = 0;
      if (pick(0, 200) == 0) {
        fail_step(plan);
      } else {
        execute(plan, abort_rate);
      }
      if (testing::Test::HasFailure()) return;
    }
    finish();
  }
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  struct Expected {
    Tokens alone;
    Tokens got;
    bool ended = false;
    bool complete = false;  // ended by its own stop rule
  };

  // Proposes drafts that are right with the run's probability, even beyond the request's end.
  void propose(std::span<DraftQuery> queries) override {
    drafts_.assign(queries.size(), {});
    for (size_t i = 0; i < queries.size(); ++i) {
      propose(*queries[i].request, queries[i].max_drafts, drafts_[i]);
      queries[i].token_ids = drafts_[i];
      queries[i].draft_class.source = pick(0, kMaxDraftSources - 1);
    }
  }
  void propose(const Request& request, int32_t max_drafts, Tokens& drafts) {
    const Tokens& alone = expected_.at(request.id).alone;
    const auto below = [this](uint32_t n) { return static_cast<int32_t>(draft_rng_() % n); };
    const auto num_drafts = below(static_cast<uint32_t>(max_drafts) + 1);
    for (int32_t i = 0; i < num_drafts; ++i) {
      const auto place = static_cast<size_t>(request.num_output_tokens() + i);
      const bool is_right = place < alone.size() && below(10) < draft_accuracy_;
      drafts.push_back(is_right ? alone[place] : below(kSmallVocab));
    }
  }
  void forget(RequestId id) override { EXPECT_TRUE(forgotten_.insert(id).second); }

  int32_t pick(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(rng_);
  }

  KvSpec random_spec(bool states) {
    KvSpec spec{.block_size = pick(1, 6), .groups = {}, .block_bytes = 1};
    const int32_t num_groups = pick(1, 3);
    for (int32_t g = 0; g < num_groups; ++g) {
      const bool windowed = pick(0, 2) == 0;
      spec.groups.push_back({.kind = windowed ? KvKind::kSlidingWindow : KvKind::kFull,
                             .sliding_window = windowed ? pick(2, 12) : 0,
                             .layers = {g}});
    }
    if (!states) return spec;
    if (pick(0, 3) == 0) spec.groups.clear();
    for (int32_t g = pick(1, 2); g > 0; --g)
      spec.groups.push_back({.kind = KvKind::kState, .layers = {num_groups + g}});
    spec.state = {.block_size = spec.block_size * pick(1, 4), .block_bytes = 1};
    return spec;
  }

  static std::vector<std::shared_ptr<const Adapter>> make_adapters() {
    std::vector<std::shared_ptr<const Adapter>> adapters;
    for (const char* name : {"a", "b", "c", "d"}) {
      auto adapter = std::make_shared<Adapter>();
      adapter->name = adapter->content_key = name;
      adapters.push_back(std::move(adapter));
    }
    return adapters;
  }

  SchedulerConfig random_config() {
    SchedulerConfig config;
    config.max_num_seqs = pick(1, 12);
    if (pick(0, 3) == 0) {
      config.max_num_seqs = pick(16, 40);
      config.express_tokens = pick(1, 40);
    }
    config.max_model_len = pick(8, 80);
    config.enable_chunked_prefill = pick(0, 5) > 0;
    config.max_num_batched_tokens = config.max_num_seqs + pick(0, 40);
    if (!config.enable_chunked_prefill) config.max_num_batched_tokens += config.max_model_len;
    config.long_prefill_token_threshold = pick(0, 1) * pick(1, 16);
    if (pick(0, 2) == 0) config.step_time = random_step_time();
    config.policy = static_cast<SchedulingPolicy>(pick(0, 2));
    if (pick(0, 9) == 0) config.batching = BatchingMode::kStaticBatches;
    config.reserve_full_isl = pick(0, 3) > 0;
    config.watermark = pick(0, 2) * 0.05;
    config.max_preemptions = pick(0, 3);
    config.max_skip_ahead = pick(0, 4);
    config.max_overtakes = pick(0, 4);
    config.priority_ageing_s = pick(0, 1);
    config.max_loras = pick(0, 3);
    config.max_num_queued_reqs = pick(2, 40);
    config.max_num_queued_tokens = pick(10, 400);
    config.async_scheduling = async_scheduling_;
    if (pipeline_) config.pipeline_depth = pick(2, 4);
    config.num_speculative_tokens = max_drafts_;
    if (pick(0, 1) == 0) config.draft_planner = random_draft_planner();
    if (has_media_) {
      config.encoder_cache_tokens = pick(kMostEmbeddings, 3 * kMostEmbeddings);
      config.media_is_bidirectional = pick(0, 2) == 0;
      has_sources_ = !config.media_is_bidirectional && pick(0, 1) == 0;
      if (has_sources_) config.encoder_step_tokens = pick(0, 1) * pick(1, kMostEmbeddings);
    }
    return config;
  }

  DraftPlannerOptions random_draft_planner() {
    DraftPlannerOptions options;
    double us = 0;
    std::vector<RowTimes::Point> points;
    for (int32_t rows = 1; rows < 40; rows += pick(1, 9))
      points.push_back({rows, us += pick(1, 100)});
    auto times = RowTimes::create(points);
    QUIRE_CHECK(times.ok(), "{}", times.status().message());
    options.row_times = *times;
    if (pick(0, 2) == 0) options.limits = {{pick(1, 9), pick(0, 3)}};
    return options;
  }

  // Here a step takes 1 to 2,000 us at random, whatever its work: predictions are often far off.
  StepTimeLimit random_step_time() {
    return {.predicted = {.step_us = 1.0 * pick(0, 500),
                          .decode_us = 1.0 * pick(0, 100),
                          .context_us = 0.1 * pick(0, 10),
                          .prompt_token_us = 1.0 * pick(1, 100),
                          .prompt_context_us = 0.1 * pick(0, 10)},
            .max_step_us = pick(1, 2000),
            .min_decode_steps = 1.0 * pick(0, 4)};
  }

  // Returns room for the longest request, and sometimes little more.
  int32_t random_num_blocks(KvPool pool) {
    const int32_t size = spec_.pool(pool).block_size;
    const int32_t per_group = (config_.max_model_len + size - 1) / size + 1;
    const auto num_groups = static_cast<int32_t>(
        std::count_if(spec_.groups.begin(), spec_.groups.end(),
                      [pool](const KvGroupSpec& group) { return group.pool() == pool; }));
    return 1 + per_group * num_groups + pick(0, 1) * pick(0, 60);
  }

  KvOptions kv_options() {
    return {
        .enable_prefix_caching = pick(0, 5) > 0,
        .hash_seed = rng_(),
        .max_sequence_tokens = config_.max_model_len,
        .max_step_tokens =
            pick(0, 1) * std::max(config_.max_num_batched_tokens, config_.max_uncommitted_tokens()),
        .reservation = pick(0, 9) == 0 ? KvReservation::kContiguousMaxLen : KvReservation::kPaged,
        .residency_sample_rate = 0.1,
        .num_state_blocks = num_state_blocks_,
        .num_host_blocks = num_state_blocks_ > 0 ? 0 : pick(0, 1) * pick(2, 60)};
  }

  static std::vector<std::shared_ptr<const MediaItem>> make_items() {
    std::vector<std::shared_ptr<const MediaItem>> items;
    for (int32_t i = 0; i < 6; ++i) {
      auto item = std::make_shared<MediaItem>();
      item->key = std::string(1, static_cast<char>('p' + i));
      item->num_embeddings = 2 + i * 2;
      items.push_back(std::move(item));
    }
    QUIRE_CHECK(items.back()->num_embeddings == kMostEmbeddings);
    return items;
  }

  // Adds some items, whole or in two parts, where the prompt has room for them. All their tokens
  // are equal.
  void add_media(Request& request) {
    if (has_sources_)
      return request.media.push_back(MediaSpan::of_source(items_[static_cast<size_t>(pick(0, 5))]));
    int32_t position = pick(0, 8);
    while (pick(0, 3) > 0) {
      const auto& item = items_[static_cast<size_t>(pick(0, 5))];
      const int32_t size = item->num_embeddings;
      const int32_t first_part = pick(0, 1) == 0 ? size : pick(1, size - 1);
      if (position + size + 1 > request.num_tokens()) return;
      std::fill_n(request.token_ids.begin() + position, size + 1, 3);
      request.media.push_back({position, position + first_part, item, 0});
      position += first_part + pick(0, 1);
      if (first_part < size) {
        request.media.push_back({position, position + size - first_part, item, first_part});
        position += size - first_part;
      }
      position += pick(0, 4);
    }
  }

  Request random_request() {
    Request request;
    request.id = RequestId(static_cast<uint64_t>(++num_added_));
    const int32_t length = pick(1, std::max(1, config_.max_model_len * 3 / 4));
    const int32_t branch = pick(0, length);
    const int32_t stem = pick(0, 2);
    for (int32_t i = 0; i < length; ++i)
      request.token_ids.push_back(i < branch ? stem * 50 + i : pick(0, kSmallVocab - 1));
    if (has_media_) add_media(request);
    SamplingParams params;
    if (pick(0, 9) == 0) request.kind = RequestKind::kPool;
    params.max_tokens = request.kind == RequestKind::kPool ? 0 : pick(1, 30);
    params.min_tokens = pick(0, params.max_tokens);
    params.ignore_eos = pick(0, 2) == 0;
    params.eos_token_ids = {7};
    params.stop_token_ids = {11};
    if (pick(0, 9) == 0) params.prompt_logprobs = 1;
    request.params = std::make_shared<SamplingParams>(params);
    request.waits_for_values = pick(0, 4) == 0;
    request.priority = pick(-2, 2);
    request.arrival_us = now_;
    if (pick(0, 9) == 0) request.deadline_us = now_ + pick(1, 60000);
    if (const auto adapter = static_cast<size_t>(pick(0, 5)); adapter < adapters_.size()) {
      request.adapter = adapters_[adapter];
      request.cache_keys.adapter = adapters_[adapter]->content_key;
    }
    return request;
  }

  void add_some(int32_t most) {
    Request request = random_request();
    const int32_t num_choices = pick(0, 3) == 0 ? pick(2, 5) : 1;
    const RequestId leader = request.id;
    for (int32_t i = 0; i < num_choices && num_added_ <= most; ++i) {
      Request choice = request;
      if (i > 0) {
        choice.id = RequestId(static_cast<uint64_t>(++num_added_));
        choice.fork_of = leader;
      }
      add_one(std::move(choice));
    }
    num_added_ = std::min(num_added_, most);
  }

  void add_one(Request request) {
    const RequestId id = request.id;
    Expected expected;
    expected.alone = test::generate_alone(test::with_media(request.token_ids, request.media),
                                          *request.params, config_.max_model_len, kSmallVocab);
    const Status status = scheduler_.add(std::move(request), now_);
    if (status.ok()) {
      expected_[id] = std::move(expected);
      return;
    }
    ASSERT_TRUE(status.code() == StatusCode::kResourceExhausted ||
                status.code() == StatusCode::kTooLarge)
        << status.message();
    EXPECT_GE(scheduler_.retry_after_s(), 1);
  }

  void mark_ended(RequestId id) {
    Expected& expected = expected_.at(id);
    EXPECT_FALSE(expected.ended) << "request " << id.value << " ended twice";
    expected.ended = true;
  }

  void collect_expired() {
    for (const RequestId id : scheduler_.expire(now_)) mark_ended(id);
  }

  void abort_some(int32_t rate) {
    for (auto& [id, expected] : expected_) {
      if (expected.ended || pick(0, 999) >= rate) continue;
      EXPECT_TRUE(scheduler_.finish(id, RequestStatus::kFinishedAborted));
      EXPECT_FALSE(scheduler_.finish(id, RequestStatus::kFinishedAborted)) << "S-7";
      mark_ended(id);
    }
  }

  // Holds some requests, which then sample nothing for some steps.
  void hold_some() {
    for (const auto& [id, expected] : expected_) {
      if (expected.ended) continue;
      const bool is_held = held_.contains(id);
      if (is_held ? pick(0, 3) > 0 : pick(0, 199) > 0) continue;
      scheduler_.hold(id, !is_held);
      is_held ? (void)held_.erase(id) : (void)held_.insert(id);
    }
  }

  void check_plan(const StepPlan& plan) {
    int32_t total = 0;
    std::set<const Adapter*> adapters;
    for (const ScheduledRequest& s : plan.scheduled) {
      total += s.num_scheduled_tokens;
      fingerprint_ = test::mix(test::mix(fingerprint_, s.id.value),
                               static_cast<uint64_t>(s.num_computed_tokens));
      const Request* request = scheduler_.find(s.id);
      ASSERT_NE(request, nullptr);
      if (request->adapter != nullptr) adapters.insert(request->adapter.get());
      const int32_t end = s.num_computed_tokens + s.num_scheduled_tokens - s.num_drafts;
      const int32_t num_open = end - request->num_tokens();  // sampled by steps under way
      EXPECT_LE(num_open, async_scheduling_ ? static_cast<int32_t>(pending_.size()) : 0) << "S-1";
      num_ahead_ += num_open > 0;
      if (s.num_drafts > 0) {
        EXPECT_EQ(num_open, 0) << "drafts behind a token whose value stands open";
        EXPECT_EQ(end, request->num_tokens());
        EXPECT_LE(s.num_drafts, max_drafts_);
      }
      EXPECT_FALSE(num_open > 0 && request->waits_for_values);
      EXPECT_FALSE(held_.contains(s.id) && end >= request->num_tokens())
          << "a held request samples";
      EXPECT_TRUE(request->reads_prefix_cache() || request->num_cached_tokens == 0);
    }
    int32_t num_encoded = 0;
    for (const auto& item : plan.media_inputs) num_encoded += item->num_embeddings;
    const int32_t step_tokens = config_.encoder_step_tokens;
    EXPECT_LE(num_encoded, step_tokens > 0 && plan.media_inputs.size() > 1
                               ? step_tokens
                               : config_.encoder_cache_tokens)
        << "S-11";
    for (const BlockTableUpdate& u : plan.block_updates) {
      fingerprint_ = test::mix(fingerprint_, static_cast<uint64_t>(u.block.value));
    }
    EXPECT_LE(total, config_.max_num_batched_tokens) << "S-1";
    if (config_.max_loras > 0) {
      EXPECT_LE(std::ssize(adapters), config_.max_loras) << "S-10";
    }
    EXPECT_LE(static_cast<int32_t>(plan.scheduled.size()), config_.max_running());
    if (pipeline_) {
      const int32_t num_requests = scheduler_.num_running() + scheduler_.num_waiting();
      EXPECT_LE(static_cast<int32_t>(plan.scheduled.size()),
                (num_requests + config_.pipeline_depth - 1) / config_.pipeline_depth)
          << "more than its part of the requests";
    }
    const Status status = scheduler_.check_integrity();
    ASSERT_TRUE(status.ok()) << status.message();
  }

  // Lets the executor run the step and then report that all of it failed: nothing of it may be
  // kept.
  void fail_step(const StepPlan& plan) {
    executor_.execute(plan);
    while (!pending_.empty()) take_result();
    for (const ScheduledRequest& s : plan.scheduled) {
      if (!scheduler_.finish(s.id, RequestStatus::kFinishedError)) {
        EXPECT_TRUE(async_scheduling_ || pipeline_);  // an earlier result has ended it
        continue;
      }
      mark_ended(s.id);
    }
  }

  void execute(const StepPlan& plan, int32_t abort_rate) {
    abort_some(abort_rate);
    if (pick(0, 60) == 0) executor_.fail_next(plan.scheduled[0].id);
    // Sometimes the next step is planned before this one's result is taken.
    pending_.push_back(executor_.execute(plan));
    for (const std::string& error : executor_.errors()) ADD_FAILURE() << error;
    if (pick(0, 9) == 0) abort_some(abort_rate);
    while (pending_.size() > most_pending_ || (!pending_.empty() && pick(0, 1) == 0)) take_result();
  }

  void take_result() {
    const StepResult result = std::move(pending_.front());
    pending_.pop_front();
    for (const RequestUpdate& update : scheduler_.update(result, now_)) {
      Expected& expected = expected_.at(update.id);
      EXPECT_FALSE(expected.ended) << "a result for " << update.id.value << ", which has ended";
      num_drafts_ += update.num_drafts;
      num_accepted_ += update.num_accepted_drafts;
      expected.got.insert(expected.got.end(), update.new_token_ids.begin(),
                          update.new_token_ids.end());
      if (!update.finished) continue;
      mark_ended(update.id);
      expected.complete = *update.finished != RequestStatus::kFinishedError;
      EXPECT_EQ(scheduler_.find(update.id)->status, *update.finished);
    }
    const Status status = scheduler_.check_integrity();
    ASSERT_TRUE(status.ok()) << status.message();
  }

  void finish() {
    collect_expired();
    EXPECT_FALSE(scheduler_.has_unfinished())
        << "S-6: " << scheduler_.num_waiting() << " wait, " << scheduler_.num_running() << " run";
    for (const auto& [id, expected] : expected_) {
      EXPECT_TRUE(expected.ended) << "request " << id.value << " never ended";
      if (expected.complete) {
        EXPECT_EQ(expected.got, expected.alone) << "L4: request " << id.value;
      } else {
        const size_t n = std::min(expected.got.size(), expected.alone.size());
        EXPECT_EQ(expected.got, Tokens(expected.alone.begin(),
                                       expected.alone.begin() + static_cast<ptrdiff_t>(n)));
      }
    }
    scheduler_.schedule(now_);
    EXPECT_TRUE(kv_.stores().num_free() == kv_.stores().num_usable()) << "KV-7";
    EXPECT_TRUE(kv_.check_integrity().ok());
    EXPECT_EQ(kv_.stats().num_unused_slots, 0);
    fingerprint_ =
        test::mix(fingerprint_, static_cast<uint64_t>(scheduler_.stats().num_preemptions));
    totals.num_preemptions += scheduler_.stats().num_preemptions;
    totals.num_forks += scheduler_.stats().num_forks;
    totals.num_skip_aheads += scheduler_.stats().num_skip_aheads;
    totals.prefix_hits += scheduler_.stats().prefix_hits;
    totals.num_refused += scheduler_.stats().num_refused;
    encoder_totals.num_queries += scheduler_.encoder_stats().num_queries;
    encoder_totals.num_hits += scheduler_.encoder_stats().num_hits;
    encoder_totals.num_evictions += scheduler_.encoder_stats().num_evictions;
    total_loaded += kv_.stats().num_loaded_total;
    total_ahead += num_ahead_;
    total_drafts += num_drafts_;
    total_accepted += num_accepted_;
  }

 public:
  static SchedulerStats totals;
  static EncoderCacheStats encoder_totals;
  static int64_t total_loaded;  // blocks that came back from host memory
  static int64_t total_ahead;   // grants of tokens whose value was still unknown
  static int64_t total_drafts;
  static int64_t total_accepted;  // of the drafts

 private:
  std::mt19937 rng_;
  std::mt19937 draft_rng_;
  const bool async_scheduling_;
  const bool pipeline_;
  const int32_t max_drafts_;
  const int32_t draft_accuracy_;  // of ten drafts, how many are right
  static constexpr int32_t kMostEmbeddings = 12;
  const bool has_media_;
  bool has_sources_ = false;  // prompts have sources instead of media in them
  std::vector<Tokens> drafts_;
  std::set<RequestId> forgotten_;
  KvSpec spec_;
  SchedulerConfig config_;
  int32_t num_blocks_;
  int32_t num_state_blocks_;
  const std::vector<std::shared_ptr<const Adapter>> adapters_ = make_adapters();
  const std::vector<std::shared_ptr<const MediaItem>> items_ = make_items();
  KvManager kv_;
  Scheduler scheduler_;
  test::ContentExecutor executor_;
  std::map<RequestId, Expected> expected_;
  std::set<RequestId> held_;
  std::deque<StepResult> pending_;  // executed, not yet given to update()
  const size_t most_pending_ = static_cast<size_t>(pick(0, 2));
  int32_t num_added_ = 0;
  int64_t now_ = 0;
  uint64_t fingerprint_ = 0;
  int64_t num_ahead_ = 0;
  int64_t num_drafts_ = 0;
  int64_t num_accepted_ = 0;
};

SchedulerStats RandomRun::totals;
EncoderCacheStats RandomRun::encoder_totals;
int64_t RandomRun::total_loaded = 0;
int64_t RandomRun::total_ahead = 0;
int64_t RandomRun::total_drafts = 0;
int64_t RandomRun::total_accepted = 0;

TEST(SchedulerRandom, EveryRequestGetsWhatItGetsAlone) {
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomRun run(seed);
    run.run();
    if (testing::Test::HasFailure()) return;
  }
  // The runs exercised what they are for.
  EXPECT_GT(RandomRun::total_loaded, 100);
  EXPECT_GT(RandomRun::totals.num_preemptions, 100);
  EXPECT_GT(RandomRun::totals.num_forks, 100);
  EXPECT_GT(RandomRun::totals.num_skip_aheads, 100);
  EXPECT_GT(RandomRun::totals.prefix_hits, 1000);
  EXPECT_GT(RandomRun::totals.num_refused, 100);
}

// With images beside text, whatever is cut, cached, evicted or preempted: no request sees another's
// image, and none is computed without its embeddings.
TEST(SchedulerRandom, MediaGiveTheSame) {
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomRun::totals = {};
    RandomRun run(seed,
                  {.async_scheduling = seed % 3 == 0, .drafts = seed % 5 == 0, .media = true});
    run.run();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(RandomRun::encoder_totals.num_hits, 500);
  EXPECT_GT(RandomRun::encoder_totals.num_queries - RandomRun::encoder_totals.num_hits, 1000);
  EXPECT_GT(RandomRun::encoder_totals.num_evictions, 100);
}

// Steps planned while earlier steps are under way give the same outputs, however late results come,
// and whatever ends, fails or is preempted meanwhile.
TEST(SchedulerRandom, AsyncSchedulingGivesTheSame) {
  RandomRun::totals = {};
  RandomRun::total_ahead = 0;
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomRun run(seed, {.async_scheduling = true});
    run.run();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(RandomRun::total_ahead, 2500);
  EXPECT_GT(RandomRun::totals.num_preemptions, 100);
  EXPECT_GT(RandomRun::totals.num_forks, 100);
  EXPECT_GT(RandomRun::totals.prefix_hits, 1000);
}

// With several steps at once, each with its share of the requests, no token is used before it is
// known.
TEST(SchedulerRandom, PipelinesGiveTheSame) {
  RandomRun::totals = {};
  RandomRun::total_ahead = 0;
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomRun run(seed, {.drafts = seed % 4 == 0, .states = seed % 4 == 1, .pipeline = true});
    run.run();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(RandomRun::total_ahead, 0);
  EXPECT_GT(RandomRun::totals.num_preemptions, 100);
  EXPECT_GT(RandomRun::totals.num_forks, 100);
  EXPECT_GT(RandomRun::totals.prefix_hits, 1000);
}

// Drafts, right or wrong, change when tokens come and nothing else.
TEST(SchedulerRandom, DraftsGiveTheSame) {
  RandomRun::totals = {};
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomRun run(seed, {.async_scheduling = seed % 3 == 0, .drafts = true});
    run.run();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(RandomRun::total_accepted, 1000);
  EXPECT_GT(RandomRun::total_drafts, 2 * RandomRun::total_accepted);
  EXPECT_GT(RandomRun::totals.num_preemptions, 100);
  EXPECT_GT(RandomRun::totals.num_forks, 100);
  EXPECT_GT(RandomRun::totals.prefix_hits, 1000);
}

// Layers that keep states, with or without attention beside them: a state that is read is that of
// exactly the tokens before it, whoever computed them.
TEST(SchedulerRandom, StatesGiveTheSame) {
  RandomRun::totals = {};
  RandomRun::total_ahead = 0;
  for (uint32_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomRun run(seed, {.async_scheduling = seed % 2 == 0, .states = true});
    run.run();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(RandomRun::total_ahead, 1000);
  EXPECT_GT(RandomRun::totals.num_preemptions, 100);
  EXPECT_GT(RandomRun::totals.num_forks, 50);
  EXPECT_GT(RandomRun::totals.prefix_hits, 1000);
}

TEST(SchedulerRandom, TheSameEventsGiveTheSamePlans) {  // S-8
  for (uint32_t seed = 1000; seed < 1030; ++seed) {
    RandomRun first(seed);
    RandomRun second(seed);
    first.run();
    second.run();
    EXPECT_NE(first.fingerprint(), 0u);
    EXPECT_EQ(first.fingerprint(), second.fingerprint()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace quire
