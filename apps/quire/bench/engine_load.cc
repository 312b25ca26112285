#include "quire/bench/engine_load.h"

#include <algorithm>
#include <atomic>
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

Result<BatchTiming> run_batch(AsyncEngine& engine, std::vector<GenerationRequest> requests,
                              const std::function<void(int64_t, int64_t)>& on_progress) {
  const Clock& clock = engine.clock();
  const int64_t start_us = clock.now_us();
  // FirstToken notes when each request had its first token. The engine's thread calls it, because
  // this thread may only wake when a small model has already finished its answer. The two threads
  // share ownership, since the engine may call it late.
  struct FirstToken {
    std::atomic<int64_t> at_us = 0;
  };
  const auto first_tokens = std::make_shared<std::vector<FirstToken>>(requests.size());
  std::vector<std::unique_ptr<OutputStream>> streams;
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto on_news = [first_tokens, i, &clock] {
      int64_t unset = 0;
      (*first_tokens)[i].at_us.compare_exchange_strong(unset, clock.now_us());
    };
    QUIRE_ASSIGN_OR_RETURN(auto stream, engine.submit(std::move(requests[i]), on_news));
    streams.push_back(std::move(stream));
  }
  int64_t num_tokens = 0;
  for (size_t i = 0; i < streams.size(); ++i) {
    while (const auto delta = streams[i]->pop()) {
      if (!delta->status.ok()) return delta->status;
      num_tokens += static_cast<int64_t>(delta->token_ids.size());
    }
    if (on_progress) on_progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(streams.size()));
  }
  const int64_t end_us = clock.now_us();
  int64_t first_token_us = start_us;
  for (const FirstToken& first : *first_tokens) {
    const int64_t at_us = first.at_us.load();
    first_token_us = std::max(first_token_us, at_us == 0 ? end_us : std::min(at_us, end_us));
  }
  return BatchTiming{static_cast<double>(first_token_us - start_us) * 1e-6,
                     static_cast<double>(end_us - start_us) * 1e-6, num_tokens};
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace quire::bench
