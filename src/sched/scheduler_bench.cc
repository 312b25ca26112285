// Measures the cost of bookkeeping per step: schedule() + update() with R running decodes, with a
// long queue, and the pieces of kv/.
//
//   ninja -C build/release quire_sched_bench && build/release/src/sched/quire_sched_bench
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "sched/scheduler.h"

namespace quire {
namespace {

constexpr int32_t kBlockSize = 16;
constexpr int32_t kPromptTokens = 512;

KvSpec bench_spec(int32_t num_groups = 1) {
  KvSpec spec{.block_size = kBlockSize, .groups = {}, .block_bytes = 1};
  for (int32_t g = 0; g < num_groups; ++g) {
    spec.groups.push_back({.kind = g == 0 ? KvKind::kFull : KvKind::kSlidingWindow,
                           .sliding_window = 256,
                           .layers = {g}});
  }
  return spec;
}

std::shared_ptr<const SamplingParams> bench_params(int32_t max_tokens) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  params.eos_token_ids = {2};
  return std::make_shared<const SamplingParams>(std::move(params));
}

Request bench_request(uint64_t id, const std::shared_ptr<const SamplingParams>& params) {
  Request request;
  request.id = RequestId(id);
  request.arrival_us = static_cast<int64_t>(id);
  request.params = params;
  for (int32_t i = 0; i < kPromptTokens; ++i)
    request.token_ids.push_back(static_cast<int32_t>(id * 7919) % 50000 + i + 10);
  return request;
}

// Writes the result of a plan in place, so that only the scheduler is measured.
void answer(const StepPlan& plan, const Scheduler& scheduler, StepResult& result) {
  result.step_id = plan.step_id;
  result.requests.resize(plan.scheduled.size());
  for (size_t i = 0; i < plan.scheduled.size(); ++i) {
    const ScheduledRequest& s = plan.scheduled[i];
    result.requests[i].id = s.id;
    const bool sampled =
        s.num_computed_tokens + s.num_scheduled_tokens == scheduler.find(s.id)->num_tokens();
    result.requests[i].sampled_token_ids.assign(sampled ? 1 : 0,
                                                static_cast<TokenId>(plan.step_id % 1000) + 10);
  }
}

struct World {
  World(int32_t num_running, int32_t num_groups)
      : kv(bench_spec(num_groups), num_groups * (num_running + 1) * 400,
           {.max_step_tokens = 1 << 20}),
        scheduler(config_for(num_running), kv) {
    const auto params = bench_params(1 << 20);
    for (int32_t i = 0; i < num_running; ++i) {
      if (!scheduler.add(bench_request(static_cast<uint64_t>(i) + 1, params), 0).ok()) std::abort();
    }
    for (int32_t i = 0; i < 4; ++i) step();
    if (scheduler.num_running() != num_running) std::abort();
  }
  static SchedulerConfig config_for(int32_t num_running) {
    SchedulerConfig config;
    config.max_num_batched_tokens = 1 << 20;
    config.max_num_seqs = num_running;
    config.max_model_len = 6000;
    config.max_num_queued_reqs = 1 << 20;
    config.max_num_queued_tokens = int64_t{1} << 40;
    return config;
  }
  void step() {
    const StepPlan& plan = scheduler.schedule(++now);
    answer(plan, scheduler, result);
    scheduler.update(result, now);
  }
  KvManager kv;
  Scheduler scheduler;
  StepResult result;
  int64_t now = 0;
};

// Measures decodes of 1000 steps, with blocks and registrations. The target is <= 50 us at 256
// running requests.
void run_decode(benchmark::State& state, bool with_update, int32_t num_groups) {
  const auto num_running = static_cast<int32_t>(state.range(0));
  auto world = std::make_unique<World>(num_running, num_groups);
  int32_t num_steps = 0;
  for (auto _ : state) {
    if (++num_steps == 2000) {
      state.PauseTiming();
      world = std::make_unique<World>(num_running, num_groups);
      num_steps = 0;
      state.ResumeTiming();
    }
    const StepPlan& plan = world->scheduler.schedule(++world->now);
    if (!with_update) state.PauseTiming();
    answer(plan, world->scheduler, world->result);
    world->scheduler.update(world->result, world->now);
    if (!with_update) state.ResumeTiming();
  }
  state.counters["ns_per_request"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * num_running,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
void BM_ScheduleAndUpdate(benchmark::State& state) { run_decode(state, true, 1); }
BENCHMARK(BM_ScheduleAndUpdate)
    ->Arg(1)
    ->Arg(64)
    ->Arg(256)
    ->Arg(1024)
    ->Unit(benchmark::kMicrosecond);
void BM_ScheduleOnly(benchmark::State& state) { run_decode(state, false, 1); }
BENCHMARK(BM_ScheduleOnly)->Arg(1)->Arg(64)->Arg(256)->Arg(1024)->Unit(benchmark::kMicrosecond);
void BM_ScheduleAndUpdateHybrid(benchmark::State& state) { run_decode(state, true, 2); }
BENCHMARK(BM_ScheduleAndUpdateHybrid)->Arg(256)->Unit(benchmark::kMicrosecond);

// Measures 256 running requests with a queue of 100,000 that cannot be admitted.
void BM_ScheduleWithLongQueue(benchmark::State& state) {
  World world(256, 1);
  const auto params = bench_params(16);
  for (uint64_t i = 0; i < 100000; ++i) {
    if (!world.scheduler.add(bench_request(i + 1000, params), 0).ok()) std::abort();
  }
  for (auto _ : state) world.step();
}
BENCHMARK(BM_ScheduleWithLongQueue)->Iterations(2000)->Unit(benchmark::kMicrosecond);

void BM_AddAndAbort(benchmark::State& state) {
  World world(64, 1);
  const auto params = bench_params(16);
  for (uint64_t i = 0; i < 100000; ++i) {
    if (!world.scheduler.add(bench_request(i + 1000, params), 0).ok()) std::abort();
  }
  const Request request = bench_request(500, params);
  for (auto _ : state) {
    benchmark::DoNotOptimize(world.scheduler.add(request, 0));
    world.scheduler.finish(request.id, RequestStatus::kFinishedAborted);
    state.PauseTiming();
    world.step();
    state.ResumeTiming();
  }
}
BENCHMARK(BM_AddAndAbort)->Iterations(2000)->Unit(benchmark::kMicrosecond);

// Hashes a prompt of 8192 tokens and finds all of it cached.
void BM_LookupHit(benchmark::State& state) {
  KvManager kv(bench_spec(), 2000, {});
  std::vector<TokenId> tokens(8192);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i);
  const KvSequenceId first = kv.open(RequestId(1), {});
  kv.tables().allocate(first, {.tokens = tokens, .num_new_tokens = 8192});
  kv.tables().commit(first, tokens, 8192);
  for (auto _ : state) {
    const KvSequenceId id = kv.open(RequestId(2), {});
    benchmark::DoNotOptimize(kv.lookup(id, tokens));
    kv.close(id);
  }
  state.SetItemsProcessed(state.iterations() * 8192);
}
BENCHMARK(BM_LookupHit)->Unit(benchmark::kMicrosecond);

// Allocates, registers, frees and evicts one sequence of 64 blocks per iteration in a full pool.
void BM_AllocateCommitFree(benchmark::State& state) {
  KvManager kv(bench_spec(), 1000, {});
  std::vector<TokenId> tokens(1024);
  TokenId next = 0;
  for (auto _ : state) {
    for (TokenId& token : tokens) token = ++next;
    const KvSequenceId id = kv.open(RequestId(1), {});
    kv.tables().allocate(id, {.tokens = tokens, .num_new_tokens = 1024});
    kv.tables().commit(id, tokens, 1024);
    kv.close(id);
  }
  state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(BM_AllocateCommitFree)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quire

BENCHMARK_MAIN();
