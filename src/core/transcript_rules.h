// Rules for the next token of a speech model (Whisper): which tokens are never sampled, and in
// which order text and timestamps come.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace quire {

// Timestamps are the last tokens of the vocabulary, one for each time step. They come in pairs: the
// end of one segment and the beginning of the next. The first token is a timestamp, the last one
// may be unpaired, and none is earlier than one before it.
struct TranscriptRules {
  std::vector<TokenId> suppressed;        // never sampled
  std::vector<TokenId> suppressed_first;  // not sampled as the first token
  TokenId first_timestamp = -1;           // stands for time 0; -1: the fields below have no effect
  // Prompts end with it if the output has no timestamps; never sampled.
  TokenId no_timestamps = -1;
  TokenId end_of_text = -1;     // tokens before it are text
  int32_t max_first_step = -1;  // the greatest time step of the first timestamp; -1: any

  bool has_timestamps() const { return first_timestamp >= 0; }
};

}  // namespace quire
