// IncrementalDetokenizer turns token ids into text as they come.
#pragma once

#include <span>
#include <string>

#include "base/ids.h"
#include "tokenizer/tokenizer.h"

namespace quire {

struct DetokenizerOptions {
  bool skip_special_tokens = false;
  // When false, an added token right after another gives its own text alone, without the space that
  // some decoders put between tokens.
  // decoders put between tokens.
  bool spaces_between_special_tokens = true;
};

// What push() and finish() return, put together, is what decode() gives for the same ids, with two
// exceptions: where ids spell ill-formed UTF-8 through byte pieces, U+FFFD may stand in other
// numbers, and the options may leave out spaces. Nothing returned ever ends inside a character. A
// token takes O(1) amortized. One thread uses the detokenizer, and the tokenizer must outlive it.
class IncrementalDetokenizer {
 public:
  explicit IncrementalDetokenizer(const Tokenizer& tokenizer, DetokenizerOptions options = {});

  // Makes what follows a continuation of `prompt_ids`: no text is returned for them, and the first
  // token keeps its leading space. It may be called before the first push() only.
  void prime(std::span<const TokenId> prompt_ids);

  // Returns the text that became certain with this token; it may be empty. Unknown ids add nothing.
  std::string push(TokenId id);

  // Returns the rest, with incomplete characters as U+FFFD. The detokenizer is used up.
  std::string finish();

 private:
  void push_into(TokenId id, std::string& out);

  const Tokenizer& tokenizer_;
  DetokenizerOptions options_;
  DecodeStream stream_;
  bool after_added_ = false;  // the last token pushed was an added one
};

}  // namespace quire
