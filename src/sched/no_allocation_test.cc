// Checks that schedule() allocates nothing once warm (law L3), by counting every operator new of
// this program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "sched/scheduler.h"

namespace {
std::atomic<int64_t> num_allocations{0};
}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  std::abort();
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return operator new(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace quire {
namespace {

TEST(Scheduler, AllocatesNothingPerStepWhenWarm) {
#ifdef QUIRE_DEBUG_CHECKS
  GTEST_SKIP() << "SKIPPED: debug checks allocate at every step; run a release build";
#endif
  SchedulerConfig config;
  config.max_model_len = 4000;
  KvManager kv(
      {.block_size = 16,
       .groups = {{.kind = KvKind::kFull, .sliding_window = 0, .layers = {0}},
                  {.kind = KvKind::kSlidingWindow, .sliding_window = 64, .layers = {1}}},
       .block_bytes = 1},
      20000, {.max_sequence_tokens = 4000, .max_step_tokens = 2048, .residency_sample_rate = 0.0});
  Scheduler scheduler(config, kv);
  SamplingParams params;
  params.max_tokens = 100000;
  const auto shared = std::make_shared<const SamplingParams>(params);
  for (uint64_t id = 1; id <= 64; ++id) {
    Request request;
    request.id = RequestId(id);
    request.token_ids.assign(32, static_cast<TokenId>(id));
    request.token_ids.reserve(2000);
    request.params = shared;
    ASSERT_TRUE(scheduler.add(std::move(request), 0).ok());
  }
  StepResult result;
  int64_t in_schedule = 0;
  for (int64_t step = 0; step < 700; ++step) {
    const int64_t before = num_allocations.load();
    const StepPlan& plan = scheduler.schedule(step);
    if (step >= 64) in_schedule += num_allocations.load() - before;
    result.step_id = plan.step_id;
    result.requests.resize(plan.scheduled.size());
    for (size_t i = 0; i < plan.scheduled.size(); ++i) {
      result.requests[i].id = plan.scheduled[i].id;
      result.requests[i].sampled_token_ids.assign(1, 5);
    }
    scheduler.update(result, step);
  }
  EXPECT_EQ(in_schedule, 0);
}

}  // namespace
}  // namespace quire
