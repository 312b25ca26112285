// A SpeechModel is a speech model as the server sees it: how recordings become the model's input,
// and which tokens control its output.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "core/transcript_rules.h"
#include "media/audio/audio_input.h"
#include "server/openai/served_model.h"

namespace quire {

// The control tokens of Whisper, found by their names in the vocabulary.
struct SpeechTokens {
  TokenId start = -1;       // <|startoftranscript|>
  TokenId transcribe = -1;  // transcribe in the spoken language
  TokenId translate = -1;   // translate into English
  TokenId previous = -1;    // goes before the earlier text; -1: the model gets none
  TokenId no_speech = -1;   // its probability at the first position means silence
  TokenId no_timestamps = -1;
  TokenId end_of_text = -1;
  TokenId first_timestamp = -1;
  // The tokens of the languages by their ISO 639 codes. When there are none, the model only
  // transcribes English, and its prompt names no language.
  std::vector<std::pair<std::string, TokenId>> languages = {};
  std::vector<TokenId> suppressed = {};
  std::vector<TokenId> suppressed_first = {};
  int32_t max_first_step = 50;  // largest step of the first timestamp
  // Whether the model's files say which attention heads show when a word is spoken.
  bool times_words = false;
  static constexpr double kStepSeconds = 0.02;

  // Returns -1 when there is no such language.
  TokenId find_language(std::string_view code) const;
  TranscriptRules rules() const;
};

// Reads the tokens. `marks` are the tokens that the vocabulary has in addition to its pieces;
// `generation` is the content of generation_config.json, or empty. kInvalidArgument: a token that
// every such model needs is missing.
Result<SpeechTokens> read_speech_tokens(std::span<const MarkToken> marks,
                                        std::string_view generation);

// A SpeechModel does not change, except for counters, so any thread may use it.
struct SpeechModel {
  AudioInput audio;
  SpeechTokens tokens;
};

}  // namespace quire
