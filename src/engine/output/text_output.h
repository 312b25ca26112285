// One choice's tokens as text: incremental detokenization, then stop strings.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/sampling_params.h"
#include "engine/output/stop_matcher.h"
#include "tokenizer/detokenizer.h"

namespace quire {

// Pieces appended to `out`, put together, are whole UTF-8 and end at the stop string that was
// found, if any. `params` and the tokenizer must outlive it.
class TextOutput {
 public:
  // The first token continues `prompt` (it keeps its leading space).
  TextOutput(const Tokenizer& tokenizer, std::span<const TokenId> prompt,
             const SamplingParams& params);

  // Adds the next token and returns which stop string has ended the text, if one has; nothing may
  // follow then. No stop string ends it while at most min_tokens tokens have come.
  std::optional<size_t> push(TokenId token_id, std::string& out);
  // Counts a token that shows no text: an EOS or stop token that ends the output.
  void skip() { ++num_tokens_; }
  // Returns how many bytes the tokens have made so far, those of stop strings included.
  int64_t num_bytes() const { return num_bytes_; }
  // Ends the text: appends what was held back, with incomplete characters as U+FFFD.
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
