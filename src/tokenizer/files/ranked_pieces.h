// RankedPieces holds the pieces of a byte-level BPE whose merges follow from their ranks, as in
// tiktoken and Tekken files. This header is private to the tokenizer folder.
#pragma once

#include <string_view>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace quire {

class RankedPieces {
 public:
  void reserve(size_t count, size_t bytes);
  // Returns an error if the piece is empty, longer than any trained piece, or already present, or
  // if the rank is out of range or taken.
  Status add(std::string_view bytes, int64_t rank);
  // Returns the largest rank + 1.
  int32_t size() const { return by_rank_.size(); }

  // Makes the parts of a tokenizer that cuts text into words by `pattern`, and moves the pieces
  // there. The id of a piece is `first_id` + its rank. The parts have no special tokens yet.
  Result<TokenizerParts> make_parts(std::string_view pattern, TokenId first_id) &&;

 private:
  Vocab by_rank_;
};

}  // namespace quire
