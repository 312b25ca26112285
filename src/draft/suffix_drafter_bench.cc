// Measures the suffix drafter's time per request and step at a context of 8,192 tokens, with and
// without outputs of earlier requests.
//   quire_draft_bench
#include <benchmark/benchmark.h>

#include <random>

#include "draft/suffix_drafter.h"

namespace quire {
namespace {

constexpr int32_t kContext = 8192;
constexpr int32_t kSteps = 512;  // then the request begins anew

// Returns pieces of text that repeat now and then, as in prompts and code.
std::vector<TokenId> text_of(uint32_t seed, int32_t num_tokens) {
  std::mt19937 random(seed);
  std::vector<TokenId> text;
  while (std::ssize(text) < num_tokens) {
    if (text.size() > 100 && random() % 3 == 0) {
      const size_t begin = random() % (text.size() - 64);
      for (size_t i = begin, end = begin + 8 + random() % 56; i < end; ++i) text.push_back(text[i]);
    } else {
      for (int i = 0; i < 16; ++i) text.push_back(static_cast<TokenId>(random() % 49152));
    }
  }
  text.resize(static_cast<size_t>(num_tokens));
  return text;
}

void add_answers(SuffixDrafter& drafter, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    Request request;
    request.id = RequestId(static_cast<uint64_t>(1000 + i));
    request.num_prompt_tokens = 1;
    request.token_ids = text_of(static_cast<uint32_t>(i), 1024);
    DraftQuery query{.request = &request, .max_drafts = 24};
    drafter.propose({&query, 1});
    drafter.forget(request.id);
  }
}

void step(benchmark::State& state) {
  SuffixDrafter drafter({});
  add_answers(drafter, static_cast<int32_t>(state.range(0)));
  const std::vector<TokenId> text = text_of(99, kContext + kSteps);
  Request request;
  request.num_prompt_tokens = kContext;
  uint64_t id = 0;
  int32_t num_steps = kSteps;
  for (auto _ : state) {
    if (num_steps == kSteps) {
      state.PauseTiming();
      drafter.forget(request.id);
      request.id = RequestId(++id);
      request.token_ids.assign(text.begin(), text.begin() + kContext);
      DraftQuery first{.request = &request, .max_drafts = 24};
      drafter.propose({&first, 1});
      num_steps = 0;
      state.ResumeTiming();
    }
    request.token_ids.push_back(text[static_cast<size_t>(kContext + num_steps++)]);
    DraftQuery query{.request = &request, .max_drafts = 24};
    drafter.propose({&query, 1});
    benchmark::DoNotOptimize(query.token_ids.data());
  }
  state.counters["MiB"] = static_cast<double>(drafter.memory_bytes()) / (1 << 20);
}
BENCHMARK(step)->Arg(0)->Arg(64)->ArgName("answers");

}  // namespace
}  // namespace quire

BENCHMARK_MAIN();
