// A model of speech as the server sees it: how recordings become what it hears, and which tokens
// steer what it writes.
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

// Of Whisper, by what its vocabulary calls them.
struct SpeechTokens {
  TokenId start = -1;       // <|startoftranscript|>
  TokenId transcribe = -1;  // write down in the language that is spoken
  TokenId translate = -1;   // into English
  TokenId previous = -1;    // before what was said earlier; -1: the model is not told
  TokenId no_speech = -1;   // how likely it is at the first place says whether anybody speaks
  TokenId no_timestamps = -1;
  TokenId end_of_text = -1;
  TokenId first_timestamp = -1;
  // ISO 639 codes of the languages. When there are none, the model knows English alone, and is told
  // of no language.
  std::vector<std::pair<std::string, TokenId>> languages = {};
  std::vector<TokenId> suppressed = {};
  std::vector<TokenId> suppressed_first = {};
  int32_t max_first_step = 50;  // of the first timestamp
  // Whether it is known which of the model's heads say when a word is spoken.
  bool times_words = false;
  static constexpr double kStepSeconds = 0.02;

  // -1: there is no such language.
  TokenId find_language(std::string_view code) const;
  TranscriptRules rules() const;
};

// Reads the tokens. `marks` are the tokens that the vocabulary holds beside its pieces;
// `generation` is generation_config.json, or empty. kInvalidArgument: a token that no such model
// can do without is not there.
Result<SpeechTokens> read_speech_tokens(std::span<const MarkToken> marks,
                                        std::string_view generation);

// Immutable but for counters; any thread.
struct SpeechModel {
  AudioInput audio;
  SpeechTokens tokens;
};

}  // namespace quire
