// IncrementalDetokenizer turns token ids into text as they arrive.
#pragma once

#include <span>
#include <string>

#include "base/ids.h"
#include "tokenizer/tokenizer.h"

namespace quire {

struct DetokenizerOptions {
  bool skip_special_tokens = false;
  // When false, an added token that directly follows another one gives its own text alone, without
  // the space that some decoders put between tokens.
  bool spaces_between_special_tokens = true;
};

// The texts that push() and finish() return, concatenated, equal what decode() returns for the same
// ids, with two exceptions: where byte pieces spell ill-formed UTF-8, the number of U+FFFD may
// differ, and the options may leave out spaces. No returned text ends inside a character. A token
// takes O(1) amortized. One thread uses the detokenizer, and the tokenizer must outlive it.
class IncrementalDetokenizer {
 public:
  explicit IncrementalDetokenizer(const Tokenizer& tokenizer, DetokenizerOptions options = {});

  // Makes the following tokens a continuation of `prompt_ids`: no text is returned for the prompt,
  // and the first token keeps its leading space. May be called only before the first push().
  void prime(std::span<const TokenId> prompt_ids);

  // Returns the text that became certain with this token; it may be empty. Unknown ids add no text.
  std::string push(TokenId id);

  // Returns the rest, with incomplete characters as U+FFFD. The detokenizer must not be used
  // afterwards.
  std::string finish();

 private:
  void push_into(TokenId id, std::string& out);

  const Tokenizer& tokenizer_;
  DetokenizerOptions options_;
  DecodeStream stream_;
  bool after_added_ = false;  // the last token pushed was an added one
};

}  // namespace quire
