#include "engine/choices/group.h"

#include "base/rng.h"

namespace quire {

void collect_prompt_logprobs(Group& group, const RequestStepResult& result) {
  if (group.first_delta_sent) return;
  // Entry i of the group is for position i + 1.
  const auto known = static_cast<int64_t>(group.prompt_logprobs.size());
  const int64_t skip = known + 1 - result.prompt_logprobs_begin;
  if (skip < 0) return;
  for (size_t i = static_cast<size_t>(skip); i < result.prompt_logprobs.size(); ++i) {
    group.prompt_logprobs.push_back(result.prompt_logprobs[i]);
  }
}

std::optional<size_t> append_tokens(Choice& choice, std::span<const TokenId> token_ids,
                                    std::span<const TokenLogprobs> logprobs, bool stopped,
                                    OutputDelta& delta) {
  const bool hide_last = stopped && !choice.params->include_stop_str_in_output;
  for (size_t i = 0; i < token_ids.size(); ++i) {
    delta.token_ids.push_back(token_ids[i]);
    if (i < logprobs.size()) delta.logprobs.push_back(logprobs[i]);
    ++choice.num_output_tokens;
    if (!choice.text) continue;
    std::optional<size_t> stop;
    if (hide_last && i + 1 == token_ids.size()) {
      choice.text->skip();
    } else {
      stop = choice.text->push(token_ids[i], delta.text);
    }
    if (choice.wants_text_ends) delta.text_ends_bytes.push_back(choice.text->num_bytes());
    if (stop) return stop;
  }
  return std::nullopt;
}

uint64_t choice_seed(uint64_t seed, int32_t index) {
  if (index == 0) return seed;
  constexpr uint32_t kForkTag = 0x666f726b;  // keeps seeds apart from sampling's counters
  const auto words = philox4x32(seed, {static_cast<uint32_t>(index), 0, 0, kForkTag});
  return (uint64_t{words[0]} << 32) | words[1];
}

}  // namespace quire
