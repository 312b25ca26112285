// Compares runs of decodes with the same rounds one by one: plans, blocks, statistics and cache
// contents must be the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kv/block_views.h"
#include "sched/scheduler.h"

namespace quire {
namespace {

TokenId token_at(RequestId id, int64_t position) {
  // There are few enough values that outputs of different requests sometimes share cached blocks.
  return static_cast<TokenId>((id.value % 3 * 7919 + static_cast<uint64_t>(position) * 31) % 1000);
}

class Tokens final : public DecodeTokens {
 public:
  void next_tokens(RequestId id, int32_t position, std::span<TokenId> out) override {
    for (size_t i = 0; i < out.size(); ++i) out[i] = token_at(id, position + static_cast<int>(i));
  }
};

struct Case {
  KvSpec spec;
  int32_t num_blocks = 0;
  SchedulerConfig config;
};

Case random_case(std::mt19937& rng) {
  const auto pick = [&rng](int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(rng);
  };
  Case setup;
  setup.spec.block_size = std::vector<int32_t>{1, 2, 4, 16}[static_cast<size_t>(pick(0, 3))];
  setup.spec.groups.resize(1);
  if (pick(0, 3) == 0) {
    setup.spec.groups.push_back(
        {.kind = KvKind::kSlidingWindow, .sliding_window = pick(1, 40), .layers = {}});
  }
  setup.num_blocks = 2 + pick(120, 900) / setup.spec.block_size;
  setup.config.max_num_batched_tokens = pick(8, 64);
  setup.config.max_num_seqs = pick(2, 8);
  setup.config.max_model_len = 100;
  setup.config.max_preemptions = pick(0, 3);
  setup.config.max_skip_ahead = pick(0, 3);
  setup.config.max_overtakes = pick(1, 2) * 32;
  setup.config.policy = static_cast<SchedulingPolicy>(pick(0, 2));
  setup.config.batching =
      pick(0, 5) == 0 ? BatchingMode::kStaticBatches : BatchingMode::kContinuous;
  if (pick(0, 1) == 0) {
    setup.config.step_time = {.predicted = {.step_us = 500,
                                            .decode_us = 100,
                                            .context_us = 1,
                                            .prompt_token_us = 50,
                                            .prompt_context_us = 0.1},
                              .max_step_us = pick(500, 3000)};
  }
  return setup;
}

class Side {
 public:
  explicit Side(const Case& setup)
      : kv_(setup.spec, setup.num_blocks,
            {.max_sequence_tokens = 100, .max_step_tokens = setup.config.max_num_batched_tokens}),
        scheduler_(setup.config, kv_) {}

  bool add(const Request& request) { return scheduler_.add(request, now_us_).ok(); }

  // Runs one round; false when there was nothing to do.
  bool round(int64_t us) {
    const StepPlan& plan = scheduler_.schedule(now_us_);
    now_us_ += us;
    last_ = plan;
    if (plan.empty()) return false;
    StepResult result{.step_id = plan.step_id};
    for (const ScheduledRequest& s : plan.scheduled) {
      RequestStepResult& answer = result.requests.emplace_back();
      answer.id = s.id;
      const int32_t end = s.num_computed_tokens + s.num_scheduled_tokens;
      if (end == scheduler_.find(s.id)->num_tokens()) {
        answer.sampled_token_ids.push_back(token_at(s.id, end));
      }
    }
    scheduler_.update(result, now_us_);
    return true;
  }

  void run(int32_t num_steps, int64_t us) {
    std::vector<int64_t> ends;
    for (int32_t i = 1; i <= num_steps; ++i) ends.push_back(now_us_ + i * us);
    Tokens tokens;
    scheduler_.run_decodes(now_us_, ends, tokens);
    now_us_ = ends.back();
  }

  int32_t max_run() const { return scheduler_.max_decode_run(); }
  bool busy() const { return scheduler_.has_unfinished(); }
  const StepPlan& last() const { return last_; }

  std::string state() const {
    const SchedulerStats s = scheduler_.stats();
    const KvStats k = kv_.stats();
    std::string text = fmt::format(
        "{} {} {} | {} {} {} {} {} {} | {} {} {} | {} {} {} {} | {} {} {} {} {}", s.num_running,
        s.num_waiting, s.num_preempted_now, s.num_steps, s.num_scheduled_tokens,
        s.num_prompt_tokens_computed, s.num_generated_tokens, s.num_recomputed_tokens,
        s.num_preemptions, s.num_skip_aheads, s.num_head_waits, s.prefix_hits,
        s.reserved_slot_steps, s.unused_slot_steps, s.prefill_tokens_per_s, s.num_queued_tokens,
        k.num_free_blocks, k.num_cached_blocks, k.num_allocated_total, k.num_evicted_total,
        k.num_unused_slots);
    const std::vector<KvBlockView> blocks =
        view_blocks(kv_.stores(), kv_.tables(), KvPool::kAttention);
    for (const KvBlockView& b : blocks) {
      text += fmt::format(" {}{}{}:{}", static_cast<int>(b.state), b.registered, b.ref_cnt,
                          b.owner.value);
    }
    return text;
  }
  Status check() const { return scheduler_.check_integrity(); }

 private:
  KvManager kv_;
  Scheduler scheduler_;
  int64_t now_us_ = 1000;
  StepPlan last_;
};

Request random_request(std::mt19937& rng, uint64_t id) {
  const auto pick = [&rng](int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(rng);
  };
  auto params = std::make_shared<SamplingParams>();
  params->max_tokens = pick(1, 50);
  params->ignore_eos = true;
  Request request;
  request.id = RequestId(id);
  const int32_t family = pick(0, 2);
  for (int32_t i = pick(1, 40); i-- > 0;) {
    request.token_ids.push_back(token_at(RequestId(static_cast<uint64_t>(family)), i));
  }
  std::reverse(request.token_ids.begin(), request.token_ids.end());
  request.params = std::move(params);
  request.priority = pick(0, 2);
  request.arrival_us = static_cast<int64_t>(id) * 100;
  return request;
}

bool same(const StepPlan& a, const StepPlan& b) {
  const auto ids = [](const StepPlan& plan) {
    std::string text;
    for (const RequestId id : plan.dropped) text += fmt::format("d{} ", id);
    for (const NewRequest& n : plan.new_requests) {
      text += fmt::format("n{}[{}] ", n.id, fmt::join(n.token_ids, ","));
    }
    for (const ScheduledRequest& s : plan.scheduled) {
      text += fmt::format("s{}@{}+{} ", s.id, s.num_computed_tokens, s.num_scheduled_tokens);
    }
    for (const BlockTableUpdate& u : plan.block_updates) {
      text += fmt::format("b{}.{}.{}={} ", u.request_index, u.group, u.logical_index, u.block);
    }
    for (const BlockCopy& c : plan.block_copies) {
      text += fmt::format("c{}>{} ", c.source, c.destination);
    }
    return text;
  };
  EXPECT_EQ(a.step_id, b.step_id);
  EXPECT_EQ(ids(a), ids(b));
  return a.step_id == b.step_id && ids(a) == ids(b);
}

void compare(uint32_t seed, int64_t& num_run_steps) {
  std::mt19937 rng(seed);
  const Case setup = random_case(rng);
  Side rounds(setup), runs(setup);
  uint64_t next_id = 1;
  for (int event = 0; event < 300; ++event) {
    if (next_id < 60 && rng() % 3 == 0) {
      const Request request = random_request(rng, next_id++);
      ASSERT_EQ(rounds.add(request), runs.add(request));
    }
    const auto us = static_cast<int64_t>(rng() % 5000 + 1);
    const int32_t most = runs.max_run();
    if (most > 0 && rng() % 4 != 0) {
      const auto n = static_cast<int32_t>(rng() % static_cast<uint32_t>(most)) + 1;
      for (int32_t i = 0; i < n; ++i) ASSERT_TRUE(rounds.round(us));
      runs.run(n, us);
      num_run_steps += n;
    } else {
      ASSERT_EQ(rounds.round(us), runs.round(us));
      ASSERT_TRUE(same(rounds.last(), runs.last()));
    }
    ASSERT_EQ(rounds.state(), runs.state()) << "event " << event;
    const Status integrity = runs.check();
    ASSERT_TRUE(integrity.ok()) << integrity.message();
  }
}

TEST(SchedulerRun, ManyStepsAtOnceAreTheSameAsOneByOne) {
  int64_t num_run_steps = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    compare(seed, num_run_steps);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(num_run_steps, 1000) << "runs were hardly ever possible";
}

TEST(SchedulerRun, NoRunWhenAStepCouldDoAnythingElse) {
  Case setup{.spec = {.block_size = 4, .groups = {KvGroupSpec{}}, .block_bytes = 0},
             .num_blocks = 65,
             .config = {.max_num_batched_tokens = 8, .max_num_seqs = 2, .max_model_len = 100}};
  Side side(setup);
  EXPECT_EQ(side.max_run(), 0) << "nothing runs";
  Request request;
  request.id = RequestId(1);
  request.token_ids.assign(12, 5);
  auto params = std::make_shared<SamplingParams>();
  params->max_tokens = 10;
  params->eos_token_ids = {7};
  params->ignore_eos = true;
  request.params = params;
  ASSERT_TRUE(side.add(request));
  ASSERT_TRUE(side.round(1));
  EXPECT_EQ(side.max_run(), 0) << "its prompt is not computed";
  ASSERT_TRUE(side.round(1));
  EXPECT_EQ(side.max_run(), 8) << "one of ten tokens is there, and the last ends it";
  Request other = request;
  other.id = RequestId(2);
  auto stops = std::make_shared<SamplingParams>(*params);
  stops->ignore_eos = false;
  other.params = stops;
  ASSERT_TRUE(side.add(other));
  EXPECT_EQ(side.max_run(), 0) << "somebody waits and there is a place";
  ASSERT_TRUE(side.round(1));
  ASSERT_TRUE(side.round(1));
  EXPECT_EQ(side.max_run(), 0) << "an EOS may end it at any step";
}

}  // namespace
}  // namespace quire
