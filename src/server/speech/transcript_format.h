// Transcripts as answers: JSON, text and subtitles.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "server/http/http_types.h"
#include "server/speech/transcriber.h"

namespace quire::server {

enum class TranscriptFormat : uint8_t { kJson, kText, kVerboseJson, kSrt, kVtt };

// {"type": "duration", "seconds": N}
boost::json::object transcript_usage(const Transcriber& transcriber);

// Returns a transcript that is done, as an answer.
HttpResponse transcript_response(const Transcriber& transcriber, TranscriptFormat format,
                                 bool lists_segments);

// Returns HH:MM:SS.mmm, with another sign before the milliseconds.
std::string subtitle_time(double seconds, char before_milliseconds);

}  // namespace quire::server
