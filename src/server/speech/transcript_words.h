// Words of a transcript with their times: tokens put together as transformers does it for Whisper.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "server/openai/served_model.h"

namespace quire {

// Seconds from the beginning of the recording.
struct TimedToken {
  TokenId id = 0;
  double start = 0.0;
  double end = 0.0;
};

struct TranscriptWord {
  std::string text;  // with the space before it
  double start = 0.0;
  double end = 0.0;
};

// Whether words of a language (ISO 639) have spaces between them; otherwise each character is one.
bool has_spaces(std::string_view language);

// Returns the words of tokens that are text. A word begins with a space or is a mark of
// punctuation; marks then go to the word that they belong to.
std::vector<TranscriptWord> make_words(std::span<const TimedToken> tokens, const TextCodec& codec,
                                       bool has_spaces);

}  // namespace quire
