#include "server/speech/transcript_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <utility>

#include "base/text_fields.h"

namespace quire::server {
namespace {

namespace json = boost::json;

json::array segment_list(const Transcriber& transcriber) {
  json::array list;
  for (const TranscriptSegment& segment : transcriber.segments()) {
    list.push_back(
        json::object{{"id", list.size()},
                     {"seek", segment.window_frame},
                     {"start", segment.start},
                     {"end", segment.end},
                     {"text", segment.text},
                     {"tokens", json::array(segment.token_ids.begin(), segment.token_ids.end())},
                     {"temperature", segment.temperature},
                     {"avg_logprob", segment.mean_logprob},
                     {"compression_ratio", segment.compression_ratio},
                     {"no_speech_prob", segment.no_speech_prob}});
  }
  return list;
}

json::array word_list(const Transcriber& transcriber) {
  json::array list;
  for (const TranscriptSegment& segment : transcriber.segments()) {
    for (const TranscriptWord& word : segment.words) {
      const std::string_view text = trim(word.text);
      if (text.empty()) continue;
      list.push_back(json::object{{"word", text}, {"start", word.start}, {"end", word.end}});
    }
  }
  return list;
}

json::object verbose(const Transcriber& transcriber, bool lists_segments) {
  json::object body{{"task", transcriber.options().translates ? "translate" : "transcribe"},
                    {"language", transcriber.language()},
                    {"duration", transcriber.seconds()},
                    {"text", transcriber.text()}};
  if (lists_segments) body["segments"] = segment_list(transcriber);
  if (transcriber.options().times_words) body["words"] = word_list(transcriber);
  body["usage"] = transcript_usage(transcriber);
  return body;
}

// Returns the text of a cue without arrows and empty lines, either of which would end the cue.
std::string cue_text(std::string text) {
  for (size_t at = 0; (at = text.find("-->", at)) != text.npos;) text.replace(at, 3, "->");
  std::ranges::replace(text, '\n', ' ');
  std::ranges::replace(text, '\r', ' ');
  const size_t first = text.find_first_not_of(' ');
  return first == text.npos ? std::string() : text.substr(first);
}

std::string subtitles(const Transcriber& transcriber, bool is_srt) {
  const char sign = is_srt ? ',' : '.';
  std::string out = is_srt ? "" : "WEBVTT\n\n";
  int64_t number = 0;
  for (const TranscriptSegment& segment : transcriber.segments()) {
    if (is_srt) out += fmt::format("{}\n", ++number);
    out += fmt::format("{} --> {}\n{}\n\n", subtitle_time(segment.start, sign),
                       subtitle_time(segment.end, sign), cue_text(segment.text));
  }
  return out;
}

}  // namespace

json::object transcript_usage(const Transcriber& transcriber) {
  return {{"type", "duration"},
          {"seconds", static_cast<int64_t>(std::ceil(transcriber.seconds()))}};
}

std::string subtitle_time(double seconds, char before_milliseconds) {
  const auto milliseconds = static_cast<int64_t>(std::llround(seconds * 1000.0));
  return fmt::format("{:02}:{:02}:{:02}{}{:03}", milliseconds / 3'600'000,
                     milliseconds / 60'000 % 60, milliseconds / 1000 % 60, before_milliseconds,
                     milliseconds % 1000);
}

HttpResponse transcript_response(const Transcriber& transcriber, TranscriptFormat format,
                                 bool lists_segments) {
  constexpr std::string_view kPlain = "text/plain; charset=utf-8";
  switch (format) {
    case TranscriptFormat::kText:
      return {200, std::string(kPlain), transcriber.text() + "\n", {}};
    case TranscriptFormat::kSrt:
      return {200, std::string(kPlain), subtitles(transcriber, true), {}};
    case TranscriptFormat::kVtt:
      return {200, "text/vtt; charset=utf-8", subtitles(transcriber, false), {}};
    case TranscriptFormat::kVerboseJson:
      return {200, "application/json", json::serialize(verbose(transcriber, lists_segments)), {}};
    case TranscriptFormat::kJson:
      break;
  }
  const json::object body{{"text", transcriber.text()}, {"usage", transcript_usage(transcriber)}};
  return {200, "application/json", json::serialize(body), {}};
}

}  // namespace quire::server
