#include "quire/bench/engine_load.h"

#include <algorithm>
#include <memory>

namespace quire::bench {

GenerationRequest random_request(std::mt19937_64& rng, int32_t vocab_size, int32_t num_tokens,
                                 int32_t output_len, const Clock& clock) {
  std::uniform_int_distribution<TokenId> id(0, vocab_size - 1);
  GenerationRequest request;
  request.external_id = "bench";
  request.prompt_token_ids.resize(static_cast<size_t>(num_tokens));
  for (TokenId& token : request.prompt_token_ids) token = id(rng);
  request.params.max_tokens = output_len;
  request.params.temperature = 0;
  request.params.ignore_eos = true;
  request.arrival_us = clock.now_us();
  return request;
}

Result<BatchTiming> run_batch(AsyncEngine& engine, std::vector<GenerationRequest> requests) {
  const Clock& clock = engine.clock();
  const int64_t start_us = clock.now_us();
  std::vector<std::unique_ptr<OutputStream>> streams;
  for (GenerationRequest& request : requests) {
    QUIRE_ASSIGN_OR_RETURN(auto stream, engine.submit(std::move(request), [] {}));
    streams.push_back(std::move(stream));
  }
  BatchTiming timing;
  for (const auto& stream : streams) {
    const auto first = stream->pop();
    if (first && !first->status.ok()) return first->status;
  }
  timing.first_token_s = static_cast<double>(clock.now_us() - start_us) * 1e-6;
  for (const auto& stream : streams) {
    while (const auto delta = stream->pop()) {
      if (!delta->status.ok()) return delta->status;
    }
  }
  timing.total_s = static_cast<double>(clock.now_us() - start_us) * 1e-6;
  return timing;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace quire::bench
