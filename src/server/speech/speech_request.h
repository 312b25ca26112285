// These functions read the forms of /v1/audio/transcriptions and /v1/audio/translations.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "server/door/door.h"
#include "server/http/api_error.h"
#include "server/http/http_types.h"
#include "server/speech/transcript_format.h"

namespace quire::server {

// A decoded recording and the options of its transcript.
struct PreparedSpeech {
  std::shared_ptr<const SpeechModel> model;
  std::shared_ptr<const TextCodec> codec;
  std::unique_ptr<Transcriber> transcriber;
  TranscriptFormat format = TranscriptFormat::kJson;
  bool lists_segments = true;  // for kVerboseJson
  bool streams = false;
  // The members below apply to every query.
  std::string external_id;
  int32_t priority = 0;
  CacheKeys cache_keys;
  int64_t arrival_us = 0;
  std::optional<int64_t> timeout_us;
};

// Reads the form and decodes its recording, which takes milliseconds to seconds.
ApiResult<PreparedCall> prepare_speech(const HttpRequest& request, bool translates,
                                       const PrepareContext& context);

}  // namespace quire::server
