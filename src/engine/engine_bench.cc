// Measures the host cost of a step of the whole engine on a FakeExecutor that takes no time. Items
// are request steps, so 1 / items_per_second is the cost of one request in one step.
#include <benchmark/benchmark.h>

#include "engine/engine.h"
#include "engine/testing/fake_executor.h"

namespace quire {
namespace {

constexpr int32_t kPrompt = 32, kOutput = 256;

std::unique_ptr<Engine> make_engine(int32_t num_requests) {
  EngineOptions options;
  options.scheduler.max_num_seqs = num_requests;
  options.scheduler.max_num_batched_tokens = std::max(num_requests, 8192);
  options.scheduler.max_model_len = 320;
  options.num_blocks = 1 + num_requests * 20;
  options.log_interval_us = 0;
  FakeExecutorOptions fake;
  fake.verify_kv = false;
  return std::move(Engine::create(options, std::make_unique<FakeExecutor>(fake), nullptr,
                                  std::make_shared<SteadyClock>()))
      .value();
}

void submit_all(Engine& engine, int32_t num_requests, uint64_t& ids,
                std::vector<std::shared_ptr<OutputChannel>>& channels) {
  channels.clear();
  for (int32_t i = 0; i < num_requests; ++i) {
    GenerationRequest r;
    for (int32_t k = 0; k < kPrompt; ++k) r.prompt_token_ids.push_back((i * 31 + k) % 1000);
    r.params.max_tokens = kOutput;
    channels.push_back(std::make_shared<OutputChannel>(1, StreamLimits{}, nullptr));
    if (!engine.add({GroupId(++ids), std::move(r), channels.back()}).ok()) std::abort();
  }
  engine.step();
}

// All requests decode one token each; readers read after every step.
void decode_step(benchmark::State& bench) {
  const auto num_requests = static_cast<int32_t>(bench.range(0));
  const auto engine = make_engine(num_requests);
  std::vector<std::shared_ptr<OutputChannel>> channels;
  uint64_t ids = 0;
  for (auto _ : bench) {
    if (!engine->has_unfinished()) {
      bench.PauseTiming();
      submit_all(*engine, num_requests, ids, channels);
      bench.ResumeTiming();
    }
    engine->step();
    for (auto& channel : channels) {
      while (channel->try_pop()) {
      }
    }
  }
  bench.SetItemsProcessed(bench.iterations() * num_requests);
}
BENCHMARK(decode_step)->Arg(1)->Arg(32)->Arg(256)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quire

BENCHMARK_MAIN();
