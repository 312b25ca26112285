#include "engine/output/text_output.h"

#include <algorithm>

namespace quire {

// An incomplete character at the prompt's end has at most 3 byte tokens, and a leading space needs
// one token before it.
constexpr size_t kPromptTail = 8;

TextOutput::TextOutput(const Tokenizer& tokenizer, std::span<const TokenId> prompt,
                       const SamplingParams& params)
    : params_(params),
      detokenizer_(tokenizer,
                   {.skip_special_tokens = params.skip_special_tokens,
                    .spaces_between_special_tokens = params.spaces_between_special_tokens}),
      stops_(params.stop, params.include_stop_str_in_output) {
  detokenizer_.prime(prompt.last(std::min(prompt.size(), kPromptTail)));
}

std::optional<size_t> TextOutput::push(TokenId token_id, std::string& out) {
  ++num_tokens_;
  return feed(detokenizer_.push(token_id), out);
}

std::optional<size_t> TextOutput::finish(std::string& out) {
  const auto stop = feed(detokenizer_.finish(), out);
  if (!stop) out += stops_.flush();
  return stop;
}

std::optional<size_t> TextOutput::feed(std::string_view text, std::string& out) {
  num_bytes_ += static_cast<int64_t>(text.size());
  const bool may_stop = params_.min_tokens == 0 || num_tokens_ > params_.min_tokens;
  StopMatcher::Output fed = stops_.feed(text, may_stop);
  out += fed.text;
  return fed.stop;
}

}  // namespace quire
