// Token ids to text as they come.
#pragma once

#include <span>
#include <string>

#include "base/ids.h"
#include "tokenizer/tokenizer.h"

namespace quire {

// What push() and finish() return, put together, is what decode() gives for the same ids (where ids
// spell ill-formed UTF-8 through byte pieces, U+FFFD may stand in other numbers). Nothing returned
// ever ends inside a character. O(1) amortized per token. One thread; the tokenizer must outlive
// it.
class IncrementalDetokenizer {
 public:
  explicit IncrementalDetokenizer(const Tokenizer& tokenizer, DecodeOptions options = {});

  // Makes what follows a continuation of `prompt_ids`: no text is returned for them, and the first
  // token keeps its leading space. Before the first push() only.
  void prime(std::span<const TokenId> prompt_ids);

  // The text that became certain with this token; may be empty. Unknown ids add nothing.
  std::string push(TokenId id);

  // The rest: incomplete characters as U+FFFD. The detokenizer is used up.
  std::string finish();

 private:
  void push_into(TokenId id, std::string& out);

  const Tokenizer& tokenizer_;
  DecodeOptions options_;
  DecodeStream stream_;
};

}  // namespace quire
