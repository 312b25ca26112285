// Turns one choice's tokens into text: incremental detokenization, then stop strings.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/sampling_params.h"
#include "engine/output/stop_matcher.h"
#include "tokenizer/detokenizer.h"

namespace quire {

// The pieces appended to `out` are together whole UTF-8 and end at the stop string that was found,
// if any. `params` and the tokenizer must outlive it.
class TextOutput {
 public:
  // The text continues `prompt`, so that its first token keeps its leading space.
  TextOutput(const Tokenizer& tokenizer, std::span<const TokenId> prompt,
             const SamplingParams& params);

  // Adds the next token. Returns which stop string has ended the text, if any; no token may follow
  // then. No stop string ends the text during the first min_tokens tokens.
  std::optional<size_t> push(TokenId token_id, std::string& out);
  // Counts a token without text: an EOS or stop token that ends the output.
  void skip() { ++num_tokens_; }
  // Returns how many bytes of text the tokens have given, including those of stop strings.
  int64_t num_bytes() const { return num_bytes_; }
  // Ends the text: appends what was held back; incomplete characters become U+FFFD.
  std::optional<size_t> finish(std::string& out);

 private:
  std::optional<size_t> feed(std::string_view text, std::string& out);

  const SamplingParams& params_;
  IncrementalDetokenizer detokenizer_;
  StopMatcher stops_;
  int32_t num_tokens_ = 0;
  int64_t num_bytes_ = 0;
};

}  // namespace quire
