#include "sched/scheduler_config.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sched/flight.h"

namespace quire {

int32_t SchedulerConfig::max_uncommitted_tokens() const {
  int32_t step = max_num_batched_tokens;
  if (enable_chunked_prefill && long_prefill_token_threshold > 0) {
    step = std::min(step, long_prefill_token_threshold);
  }
  if (!async_scheduling && pipeline_depth == 1) return step;
  return static_cast<int32_t>(
      std::min<int64_t>(int64_t{kMaxFlights} * step, std::numeric_limits<int32_t>::max()));
}

int32_t SchedulerConfig::num_express_seqs() const {
  if (express_tokens <= 0) return 0;
  return std::max(0, std::min(max_num_seqs / 16, max_num_batched_tokens - max_num_seqs));
}

Status SchedulerConfig::validate() const {
  if (max_model_len < 1)
    return invalid_argument("--max-model-len: expected >= 1, got {}", max_model_len);
  if (max_num_seqs < 1)
    return invalid_argument("--max-num-seqs: expected >= 1, got {}", max_num_seqs);
  if (max_num_batched_tokens < max_num_seqs) {
    return invalid_argument("--max-num-batched-tokens: expected >= --max-num-seqs ({}), got {}",
                            max_num_seqs, max_num_batched_tokens);
  }
  if (!enable_chunked_prefill && max_num_batched_tokens < max_model_len) {
    return invalid_argument(
        "--max-num-batched-tokens: expected >= --max-model-len ({}) without chunked prefill, got "
        "{}",
        max_model_len, max_num_batched_tokens);
  }
  if (pipeline_depth < 1 || (pipeline_depth > 1 && async_scheduling)) {
    return invalid_argument("pipeline-depth: expected >= 1, and 1 with async scheduling, got {}",
                            pipeline_depth);
  }
  if (long_prefill_token_threshold < 0) {
    return invalid_argument("--long-prefill-token-threshold: expected >= 0, got {}",
                            long_prefill_token_threshold);
  }
  if (step_time.max_step_us < 0) {
    return invalid_argument("max-step-ms: expected >= 0, got {}", step_time.max_step_us / 1000);
  }
  if (!(watermark >= 0.0 && watermark < 1.0)) {
    return invalid_argument("--watermark: expected a share in [0, 1), got {}", watermark);
  }
  if (max_preemptions < 0)
    return invalid_argument("max-preemptions: expected >= 0, got {}", max_preemptions);
  if (max_skip_ahead < 0)
    return invalid_argument("max-skip-ahead: expected >= 0, got {}", max_skip_ahead);
  if (max_overtakes < 0)
    return invalid_argument("max-overtakes: expected >= 0, got {}", max_overtakes);
  if (express_tokens < 0)
    return invalid_argument("--express-tokens: expected >= 0, got {}", express_tokens);
  constexpr double kMaxRate = 1e9;
  if (!(sjf_ageing_tokens_per_s == 0.0 ||
        (sjf_ageing_tokens_per_s >= 1e-3 && sjf_ageing_tokens_per_s <= kMaxRate))) {
    return invalid_argument("sjf-ageing: expected 0 or 0.001 to 1e9 tokens/s, got {}",
                            sjf_ageing_tokens_per_s);
  }
  if (!(priority_ageing_s >= 0.0 && priority_ageing_s <= 3600.0)) {
    return invalid_argument("priority-ageing: expected 0 to 3600 s, got {}", priority_ageing_s);
  }
  if (encoder_cache_tokens < 0) {
    return invalid_argument("encoder cache: expected >= 0 embeddings, got {}",
                            encoder_cache_tokens);
  }
  if (max_loras < 0) return invalid_argument("--max-loras: expected >= 0, got {}", max_loras);
  if (max_num_queued_reqs < 1) {
    return invalid_argument("--max-num-queued-reqs: expected >= 1, got {}", max_num_queued_reqs);
  }
  if (max_num_queued_tokens < 1) {
    return invalid_argument("--max-num-queued-tokens: expected >= 1, got {}",
                            max_num_queued_tokens);
  }
  return {};
}

}  // namespace quire
