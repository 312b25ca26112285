// These functions write transcripts as JSON, text and subtitles.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "server/http/http_types.h"
#include "server/speech/transcriber.h"

namespace quire::server {

enum class TranscriptFormat : uint8_t { kJson, kText, kVerboseJson, kSrt, kVtt };

// Returns {"type": "duration", "seconds": N}.
boost::json::object transcript_usage(const Transcriber& transcriber);

// Returns the answer with a complete transcript.
HttpResponse transcript_response(const Transcriber& transcriber, TranscriptFormat format,
                                 bool lists_segments);

// Returns HH:MM:SS.mmm, with `before_milliseconds` in the place of the point.
std::string subtitle_time(double seconds, char before_milliseconds);

}  // namespace quire::server
