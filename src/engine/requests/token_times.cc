#include "engine/requests/token_times.h"

#include <algorithm>
#include <optional>

namespace quire {

void note_tokens(Choice& choice, int32_t num_tokens, int64_t now_us, const Request* request,
                 EngineMetrics& metrics) {
  ChoiceTimes& times = choice.times;
  std::optional<int64_t> gap_us;
  if (!choice.prompt_done) {
    choice.prompt_done = true;
    times.first_token_us = now_us;
    if (request != nullptr) {
      choice.num_cached_tokens = std::min(request->num_cached_tokens, request->num_prompt_tokens);
    }
    metrics.on_first_token(now_us - times.arrival_us, choice.group->num_prompt_tokens,
                           choice.num_cached_tokens);
  } else {
    gap_us = now_us - times.last_token_us;
  }
  times.last_token_us = now_us;
  metrics.on_tokens(num_tokens, gap_us);
}

}  // namespace quire
