#include "sched/adapters/adapter_uses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>

#include "sched/scheduler.h"
#include "sched/testing/content_executor.h"

namespace quire {
namespace {

std::shared_ptr<const Adapter> make_adapter(std::string name) {
  auto adapter = std::make_shared<Adapter>();
  adapter->name = adapter->content_key = std::move(name);
  return adapter;
}

// Compares the counts with those of a naive model that has a count per adapter.
TEST(AdapterUses, CountsAsANaiveModelDoes) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const int32_t max_running = static_cast<int32_t>(random() % 4);
    AdapterUses uses(max_running);
    std::vector<std::shared_ptr<const Adapter>> adapters;
    for (int i = 0; i < 6; ++i) adapters.push_back(make_adapter(std::to_string(i)));
    std::map<const Adapter*, int32_t> running, waiting;
    for (int step = 0; step < 400; ++step) {
      const Adapter* adapter = adapters[random() % adapters.size()].get();
      const auto num_running = std::count_if(running.begin(), running.end(),
                                             [](const auto& entry) { return entry.second > 0; });
      const bool has_room = max_running == 0 || num_running < max_running || running[adapter] > 0;
      ASSERT_EQ(uses.has_room(adapter), has_room);
      ASSERT_EQ(uses.num_running(), num_running);
      const auto choice = random() % 4;
      if (choice == 0) uses.add_waiting(adapter, 1), ++waiting[adapter];
      if (choice == 1 && waiting[adapter] > 0) uses.add_waiting(adapter, -1), --waiting[adapter];
      if (choice == 2 && has_room) uses.add_running(adapter, 1), ++running[adapter];
      if (choice == 3 && running[adapter] > 0) uses.add_running(adapter, -1), --running[adapter];
      for (const AdapterUse& use : uses.uses()) {
        ASSERT_EQ(use.num_running, running[use.adapter]);
        ASSERT_EQ(use.num_waiting, waiting[use.adapter]);
      }
    }
    EXPECT_TRUE(uses.has_room(nullptr));
  }
}

class AdapterAgeing : public testing::TestWithParam<int32_t> {
 protected:
  Request make_request(uint64_t id, std::shared_ptr<const Adapter> adapter, int32_t max_tokens) {
    SamplingParams params;
    params.max_tokens = max_tokens;
    params.ignore_eos = true;
    Request request;
    request.id = RequestId(id);
    for (int32_t i = 0; i < 3; ++i)
      request.token_ids.push_back(static_cast<TokenId>(id * 3 % 900) + i);
    request.params = std::make_shared<SamplingParams>(params);
    request.arrival_us = static_cast<int64_t>(id);
    request.adapter = std::move(adapter);
    return request;
  }
};

// One adapter may run, and there is always another request for it. A request for the other one
// comes in after max_overtakes of them; requests without an adapter never wait.
TEST_P(AdapterAgeing, NobodyStarves) {
  const KvSpec spec{.block_size = 4, .groups = {KvGroupSpec{.layers = {0}}}, .block_bytes = 1};
  SchedulerConfig config;
  config.max_num_batched_tokens = 64;
  config.max_num_seqs = 4;
  config.max_model_len = 64;
  config.max_loras = 1;
  config.max_overtakes = GetParam();
  config.express_tokens = 0;
  KvManager kv(spec, 101, {});
  Scheduler scheduler(config, kv);
  test::ContentExecutor executor(spec, 101, 1000);
  const auto busy = make_adapter("busy");
  const auto rare = make_adapter("rare");
  uint64_t next_id = 1;
  const auto add = [&](const std::shared_ptr<const Adapter>& adapter, int32_t max_tokens) {
    ASSERT_TRUE(scheduler.add(make_request(next_id++, adapter, max_tokens), 0).ok());
  };
  add(busy, 6);
  add(busy, 3);
  int64_t now = 0;
  const auto run_step = [&] {
    const StepResult result = executor.execute(scheduler.schedule(++now));
    scheduler.update(result, now);
  };
  run_step();
  const RequestId waiting(next_id);
  add(rare, 2);
  int32_t num_steps = 0;
  int32_t num_busy = 0;
  while (scheduler.find(waiting)->status == RequestStatus::kWaiting) {
    ASSERT_LT(++num_steps, 400) << "the rare adapter starves";
    if (scheduler.num_waiting() < 3) {
      add(busy, 4);
      ++num_busy;
    }
    const RequestId plain(next_id);
    if (num_steps % 5 == 0 && scheduler.num_running() < 3) add(nullptr, 1);
    run_step();
    ASSERT_TRUE(scheduler.check_integrity().ok());
    if (num_steps % 5 == 0 && scheduler.find(plain) != nullptr) {
      EXPECT_NE(scheduler.find(plain)->status, RequestStatus::kWaiting);
    }
  }
  EXPECT_GE(num_busy, GetParam());
  EXPECT_TRUE(executor.errors().empty());
}

INSTANTIATE_TEST_SUITE_P(All, AdapterAgeing, testing::Values(0, 1, 8));

}  // namespace
}  // namespace quire
