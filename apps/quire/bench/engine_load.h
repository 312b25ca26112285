// Requests with random prompts, run straight on an engine: what latency, throughput and ablation
// measure with.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "base/result.h"
#include "engine/async_engine.h"

namespace quire::bench {

// `num_tokens` random ids below the vocabulary's size, always greedy and full-length.
GenerationRequest random_request(std::mt19937_64& rng, int32_t vocab_size, int32_t num_tokens,
                                 int32_t output_len, const Clock& clock);

struct BatchTiming {
  double first_token_s = 0;  // submit → every request has its first token
  double total_s = 0;        // submit → every request has finished
};
// Submits all at once and waits for all. Fails on the first failed request. `on_progress`, unless
// empty, hears how many requests, in the order given, have finished.
Result<BatchTiming> run_batch(AsyncEngine& engine, std::vector<GenerationRequest> requests,
                              const std::function<void(int64_t, int64_t)>& on_progress = nullptr);

double median(std::vector<double> values);

}  // namespace quire::bench
