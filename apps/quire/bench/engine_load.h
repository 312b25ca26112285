// Requests with random prompts run straight on an engine. The benchmarks latency, throughput and
// ablation measure with them.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "base/result.h"
#include "engine/async_engine.h"

namespace quire::bench {

// Returns a request of `num_tokens` random ids of the vocabulary, which is sampled greedily and
// never stops early.
GenerationRequest random_request(std::mt19937_64& rng, int32_t vocab_size, int32_t num_tokens,
                                 int32_t output_len, const Clock& clock);

struct BatchTiming {
  double first_token_s = 0;  // from submit until every request has its first token
  double total_s = 0;        // from submit until every request has finished
  int64_t num_tokens = 0;    // of all answers
};
// Submits all requests at once and waits for all of them. It fails with the first request that
// fails. `on_progress` may be empty; otherwise it is called with the number of requests, counted in
// the order given, that have finished.
Result<BatchTiming> run_batch(AsyncEngine& engine, std::vector<GenerationRequest> requests,
                              const std::function<void(int64_t, int64_t)>& on_progress = nullptr);

double median(std::vector<double> values);

}  // namespace quire::bench
