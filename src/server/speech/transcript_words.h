// make_words() returns the words of a transcript with their times. It joins tokens as transformers
// does for Whisper.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "server/openai/served_model.h"

namespace quire {

// Times are seconds from the beginning of the recording.
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

// Returns whether a language (ISO 639) has spaces between words; otherwise each character is a
// word.
bool has_spaces(std::string_view language);

// Returns the words of text tokens. A word begins with a space or is a punctuation mark; each mark
// is then joined to the word that it belongs to.
std::vector<TranscriptWord> make_words(std::span<const TimedToken> tokens, const TextCodec& codec,
                                       bool has_spaces);

}  // namespace quire
