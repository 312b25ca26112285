// Measures the time of one token: quire_sample_bench [--benchmark_filter=…]. V = 151936 is Qwen's
// vocabulary.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "sample/sampler.h"

namespace quire {
namespace {

// Returns logits much like those of a language model: a wide bell, and a few likely tokens.
std::vector<float> logits(int64_t vocab_size) {
  std::mt19937 rng(7);
  std::normal_distribution<float> bulk(0, 2.5f);
  std::vector<float> row(static_cast<size_t>(vocab_size));
  for (float& x : row) x = bulk(rng);
  for (size_t i = 0; i < 30; ++i) row[rng() % row.size()] = 12.0f + bulk(rng);
  return row;
}

void run(benchmark::State& bench, const SamplingParams& params) {
  const auto row = logits(bench.range(0));
  Sampler sampler;
  const std::vector<TokenId> context{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const SamplerState state(params, context, 5);
  int32_t position = 10;
  for (auto _ : bench) {
    auto out = sampler.sample({.logits = row,
                               .params = params,
                               .state = state,
                               .position = ++position,
                               .num_output_tokens = 5});
    benchmark::DoNotOptimize(out);
  }
}

SamplingParams with(float temperature, float top_p, int32_t top_k, float min_p) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_p = top_p;
  params.top_k = top_k;
  params.min_p = min_p;
  return params;
}

void greedy(benchmark::State& s) { run(s, with(0, 1, 0, 0)); }
void plain(benchmark::State& s) { run(s, with(1, 1, 0, 0)); }
void top_p(benchmark::State& s) { run(s, with(1, 0.95f, 0, 0)); }
void top_k(benchmark::State& s) { run(s, with(1, 1, 50, 0)); }
void top_k_large(benchmark::State& s) { run(s, with(1, 1, 5000, 0)); }
void min_p(benchmark::State& s) { run(s, with(1, 1, 0, 0.05f)); }
void all_filters(benchmark::State& s) { run(s, with(0.7f, 0.9f, 50, 0.02f)); }
void flat_top_p(benchmark::State& s) { run(s, with(2, 0.95f, 0, 0)); }
void penalties(benchmark::State& s) {
  SamplingParams params = with(1, 1, 0, 0);
  params.repetition_penalty = 1.1f;
  run(s, params);
}
void logprobs(benchmark::State& s) {
  SamplingParams params = with(0, 1, 0, 0);
  params.logprobs = 20;
  run(s, params);
}

BENCHMARK(greedy)->Arg(32000)->Arg(151936)->Unit(benchmark::kMicrosecond);
BENCHMARK(plain)->Arg(32000)->Arg(151936)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_p)->Arg(32000)->Arg(151936)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_k)->Arg(151936)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_k_large)->Arg(151936)->Unit(benchmark::kMicrosecond);
BENCHMARK(min_p)->Arg(151936)->Unit(benchmark::kMicrosecond);
BENCHMARK(all_filters)->Arg(32000)->Arg(151936)->Unit(benchmark::kMicrosecond);
BENCHMARK(flat_top_p)->Arg(151936)->Unit(benchmark::kMicrosecond);
BENCHMARK(penalties)->Arg(151936)->Unit(benchmark::kMicrosecond);
BENCHMARK(logprobs)->Arg(151936)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quire

BENCHMARK_MAIN();
