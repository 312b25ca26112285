// What a model of speech may say next (Whisper): which tokens never come, and in which order text and
// timestamps do.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace quire {

// Timestamps are the last tokens of the vocabulary, one for each step of time. They stand in pairs: the
// end of a segment, and the beginning of the next one; the first token is one, the last one may stand
// alone, and none is earlier than one before it.
struct TranscriptRules {
  std::vector<TokenId> suppressed;        // never said
  std::vector<TokenId> suppressed_first;  // not said as the first token
  TokenId first_timestamp = -1;           // of time 0; -1: the rest has no effect
  TokenId no_timestamps = -1;             // stands in prompts whose answers have none: never said
  TokenId end_of_text = -1;               // tokens before it are text
  int32_t max_first_step = -1;            // where the first timestamp may stand; -1: anywhere

  bool has_timestamps() const { return first_timestamp >= 0; }
};

}  // namespace quire
