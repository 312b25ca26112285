// SentencePieceProto has the fields of sentencepiece_model.proto that encoding needs. This header
// is private to the tokenizer folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

enum class SentencePieceType { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct SentencePieceProto {
  struct Piece {
    std::string text;
    float score = 0;
    SentencePieceType type = SentencePieceType::kNormal;
  };
  enum class Algorithm { kUnigram = 1, kBpe, kWord, kChar };

  std::vector<Piece> pieces;
  Algorithm algorithm = Algorithm::kUnigram;
  bool whitespace_as_suffix = false;
  bool byte_fallback = false;
  std::string bos_piece = "<s>";
  std::string eos_piece = "</s>";
  std::string pad_piece = "<pad>";
  std::string charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// Returns an error of one line if the bytes are not a well-formed model.
Result<SentencePieceProto> parse_sentencepiece_proto(std::string_view bytes);

}  // namespace quire
