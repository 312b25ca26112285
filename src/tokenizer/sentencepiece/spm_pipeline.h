// SpmPipeline holds what SentencePiece files and GGUF "llama" and "t5" vocabularies have in common.
// This header is private to the tokenizer folder.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tokenizer/sentencepiece/sentencepiece_proto.h"
#include "tokenizer/tokenizer.h"

namespace quire {

struct SpmPipeline {
  std::vector<SentencePieceProto::Piece> pieces;  // by id
  bool is_bpe = true;                             // else unigram
  bool byte_fallback = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = false;
  bool escape_whitespaces = true;
  bool whitespace_as_suffix = false;
  // Whether text after an added token gets a dummy prefix, too.
  bool prefix_after_added_tokens = true;
  bool user_defined_are_added = false;  // user-defined pieces cut the text like added tokens
  std::string charsmap;                 // may be empty
};

// Makes the normalizer, model, special tokens (control and unknown pieces) and decoder. Pieces may
// occur twice; find() then returns the first one's id.
Result<TokenizerParts> make_spm_parts(SpmPipeline spm);

}  // namespace quire
