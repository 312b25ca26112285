// One scheduler (L1): the same arrivals go to the real Engine on the FakeExecutor and to a
// simulated replica, and every step's plan must be the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "engine/engine.h"
#include "engine/testing/fake_executor.h"
#include "sim/fleet/fleet.h"
#include "sim/testing/sim_test_support.h"

namespace quire::sim {
namespace {

// PlanLog records plans. It names requests by the order in which they joined, because their ids
// differ between the two.
class PlanLog {
 public:
  void add(const StepPlan& plan) {
    std::string line = fmt::format("step {}:", plan.step_id);
    for (const RequestId id : plan.dropped) line += fmt::format(" -{}", name(id));
    for (const NewRequest& n : plan.new_requests) {
      line += fmt::format(" +{}({} of {}, {})", name(n.id), n.num_prompt_tokens, n.token_ids.size(),
                          fmt::join(n.token_ids, ","));
    }
    for (const ScheduledRequest& s : plan.scheduled) {
      line += fmt::format(" {}[{}+{}]", name(s.id), s.num_computed_tokens, s.num_scheduled_tokens);
    }
    for (const BlockTableUpdate& u : plan.block_updates) {
      line += fmt::format(" {}.{}.{}={}", u.request_index, u.group, u.logical_index, u.block);
    }
    for (const BlockCopy& c : plan.block_copies) {
      line += fmt::format(" {}>{}", c.source, c.destination);
    }
    lines.push_back(std::move(line));
  }
  std::vector<std::string> lines;

 private:
  size_t name(RequestId id) {
    // Admission order may differ from the order of ids, so names are ranks among all ids seen in
    // both logs: the engine counts from 1, the simulator shifts its count.
    return id.value >= (uint64_t{1} << 20) ? id.value >> 20 : id.value;
  }
};

// TimedFake is the engine's executor. It takes the times of the simulator's timer and the tokens of
// the workload.
class TimedFake final : public Executor {
 public:
  TimedFake(FakeExecutorOptions options, std::shared_ptr<const StepTimer> timer,
            std::shared_ptr<ManualClock> clock, PlanLog& log)
      : fake_(std::move(options)), timer_(std::move(timer)), clock_(std::move(clock)), log_(log) {}
  ExecutorInfo info() const override { return fake_.info(); }
  KvSpec kv_spec() const override { return fake_.kv_spec(); }
  int64_t available_kv_bytes() const override { return fake_.available_kv_bytes(); }
  Status initialize(const KvPlan& plan) override { return fake_.initialize(plan); }
  Status warm_up() override { return {}; }
  int32_t max_steps_in_flight() const override { return fake_.max_steps_in_flight(); }
  Result<StepResult> execute(const StepPlan& plan) override {
    log_.add(plan);
    Result<StepResult> result = fake_.execute(plan);
    if (result.ok()) clock_->advance_us(duration_us(plan, *result));
    return result;
  }
  Status submit(const StepPlan& plan) override {
    log_.add(plan);
    submitted_.push_back({plan, clock_->now_us()});
    return fake_.submit(plan);
  }
  // Collects the oldest step; steps run one after the other.
  Result<StepResult> collect() override {
    const auto [plan, at_us] = submitted_.front();
    submitted_.pop_front();
    Result<StepResult> result = fake_.collect();
    if (!result.ok()) return result;
    free_at_us_ = std::max(free_at_us_, at_us) + duration_us(plan, *result);
    clock_->advance_us(std::max<int64_t>(0, free_at_us_ - clock_->now_us()));
    return result;
  }
  FakeExecutor& fake() { return fake_; }

 private:
  struct Submitted {
    StepPlan plan;
    int64_t at_us = 0;
  };

  int64_t duration_us(const StepPlan& plan, const StepResult& result) const {
    StepShape shape;
    for (size_t i = 0; i < plan.scheduled.size(); ++i) {
      const ScheduledRequest& s = plan.scheduled[i];
      shape.add(s.num_computed_tokens, s.num_scheduled_tokens,
                !result.requests[i].sampled_token_ids.empty(), timer_->windows());
    }
    return timer_->time(shape).total_ns / 1000;
  }

  FakeExecutor fake_;
  std::deque<Submitted> submitted_;
  int64_t free_at_us_ = 0;
  std::shared_ptr<const StepTimer> timer_;
  std::shared_ptr<ManualClock> clock_;
  PlanLog& log_;
};

// All times are whole microseconds, which is the engine's unit.
ReplicaSpec microsecond_replica() {
  ReplicaSpec spec = test::small_replica();
  auto timer = std::make_shared<AffineTimer>();
  timer->step_ns = 1e6;
  timer->token_ns = 2e4;
  timer->context_ns = 1e3;
  spec.timer = timer;
  return spec;
}

// Returns the engine's plans when the workload's requests arrive at their times.
std::vector<std::string> engine_plans(const Workload& workload, const ReplicaSpec& spec) {
  PlanLog log;
  const auto clock = std::make_shared<ManualClock>(0);
  FakeExecutorOptions options{
      .vocab_size = spec.model.vocab_size,
      .max_model_len = spec.model.max_model_len,
      .kv_spec = spec.kv_spec,
      .available_kv_bytes = spec.kv_bytes,
      .max_steps_in_flight = spec.engine.scheduler.async_scheduling ? 2 : 1};
  options.wait = [](int64_t) {};
  // The FakeExecutor gets only a context, so the request is found by its prompt.
  std::vector<std::vector<TokenId>> prompts(workload.requests.size());
  for (size_t i = 0; i < workload.requests.size(); ++i) {
    workload.fill_prompt(workload.requests[i], prompts[i]);
  }
  options.next_token = [&](std::span<const TokenId> context) -> std::optional<TokenId> {
    for (size_t i = 0; i < prompts.size(); ++i) {
      const SimRequest& r = workload.requests[i];
      if (context.size() < prompts[i].size() ||
          !std::equal(prompts[i].begin(), prompts[i].end(), context.begin())) {
        continue;
      }
      std::vector<TokenId> output(context.size() - prompts[i].size());
      fill_content(r.content, r.input_tokens, output);
      if (std::equal(output.begin(), output.end(), context.begin() + r.input_tokens)) {
        return content_token(r.content, static_cast<int64_t>(context.size()));
      }
    }
    return std::nullopt;
  };
  auto executor = std::make_unique<TimedFake>(options, spec.timer, clock, log);
  TimedFake* fake = executor.get();
  EngineOptions engine_options = spec.engine;
  engine_options.log_interval_us = 0;
  auto engine = Engine::create(engine_options, std::move(executor), nullptr, clock);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  std::vector<std::shared_ptr<OutputChannel>> channels;
  size_t next = 0;
  while (next < workload.requests.size() || (*engine)->has_unfinished()) {
    for (; next < workload.requests.size() &&
           workload.requests[next].arrival_ns <= clock->now_us() * 1000;
         ++next) {
      GenerationRequest request;
      request.prompt_token_ids = prompts[next];
      request.params.max_tokens = workload.requests[next].output_tokens;
      request.params.ignore_eos = true;
      request.priority = workload.requests[next].priority;
      request.arrival_us = workload.requests[next].arrival_ns / 1000;
      channels.push_back(std::make_shared<OutputChannel>(1, StreamLimits{}, nullptr));
      const Status added = (*engine)->add({GroupId(next + 1), std::move(request), channels.back()});
      EXPECT_TRUE(added.ok()) << added.message();
    }
    if (!(*engine)->step()) {
      if (next >= workload.requests.size()) break;
      clock->advance_us(workload.requests[next].arrival_ns / 1000 - clock->now_us());
    }
    for (const auto& channel : channels) {
      while (channel->try_pop()) {
      }
    }
  }
  EXPECT_EQ(fake->fake().violations(), std::vector<std::string>{});
  return log.lines;
}

std::vector<std::string> simulator_plans(const Workload& workload, const ReplicaSpec& replica) {
  FleetSpec spec = test::small_fleet();
  spec.pools[0].replica = replica;
  PlanLog log;
  const auto result =
      run(workload, spec, {.on_step = [&log](const StepView& view) { log.add(*view.plan); }});
  EXPECT_TRUE(result.ok()) << result.status().message();
  for (const RequestRecord& record : result->records) {
    EXPECT_EQ(record.outcome, Outcome::kCompleted);
  }
  return log.lines;
}

void expect_same_plans(uint64_t seed, const ReplicaSpec& replica) {
  Workload workload = test::random_workload(seed, 60, 4e6);
  for (SimRequest& r : workload.requests) {
    r.arrival_ns = r.arrival_ns / 1000 * 1000;
    r.prefix_tokens = std::min(r.prefix_tokens, r.input_tokens - 1);  // all prompts differ
  }
  ASSERT_TRUE(workload.validate().ok());
  const std::vector<std::string> engine = engine_plans(workload, replica);
  const std::vector<std::string> simulator = simulator_plans(workload, replica);
  ASSERT_GT(engine.size(), 50u);
  for (size_t i = 0; i < std::min(engine.size(), simulator.size()); ++i) {
    ASSERT_EQ(engine[i], simulator[i]) << "seed " << seed;
  }
  EXPECT_EQ(engine.size(), simulator.size());
}

TEST(OneScheduler, SimulatorPlansWhatTheEnginePlans) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    expect_same_plans(seed, microsecond_replica());
    if (HasFatalFailure()) return;
  }
}

TEST(OneScheduler, AlsoWhenMemoryIsShortAndRequestsArePreempted) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    ReplicaSpec spec = microsecond_replica();
    spec.engine.num_blocks = 60;
    spec.engine.scheduler.max_model_len = 200;
    spec.engine.scheduler.policy =
        seed % 2 == 0 ? SchedulingPolicy::kPriority : SchedulingPolicy::kSjf;
    expect_same_plans(seed, spec);
    if (HasFatalFailure()) return;
  }
}

TEST(OneScheduler, AlsoWhenStepsArePlannedAhead) {
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    ReplicaSpec spec = microsecond_replica();
    spec.engine.scheduler.async_scheduling = true;
    if (seed % 2 == 0) {
      spec.engine.num_blocks = 60;
      spec.engine.scheduler.max_model_len = 200;
    }
    expect_same_plans(seed, spec);
    if (HasFatalFailure()) return;
  }
}

// Half of the predicted times are wrong by a factor, so that both sides must learn the same
// corrections.
TEST(OneScheduler, AlsoWhenStepsAreBoundedByTime) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    ReplicaSpec spec = microsecond_replica();
    spec.engine.scheduler.async_scheduling = seed % 2 == 0;
    const std::vector<std::string> unbounded =
        simulator_plans(test::random_workload(seed, 60, 4e6), spec);
    spec.engine.scheduler.step_time = {
        .predicted = {.step_us = 400, .decode_us = 20, .context_us = 1, .prompt_token_us = 50},
        .max_step_us = 1700};
    EXPECT_NE(simulator_plans(test::random_workload(seed, 60, 4e6), spec), unbounded);
    expect_same_plans(seed, spec);
    if (HasFatalFailure()) return;
  }
}

TEST(OneScheduler, AlsoWithSlidingWindows) {
  ReplicaSpec spec = microsecond_replica();
  spec.kv_spec.groups.push_back(
      {.kind = KvKind::kSlidingWindow, .sliding_window = 24, .layers = {}});
  expect_same_plans(3, spec);
}

}  // namespace
}  // namespace quire::sim
