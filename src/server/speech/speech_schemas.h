// These are the schemas of the bodies of the speech routes, for /openapi.json.
#pragma once

#include <string_view>

namespace quire::server {

inline constexpr std::string_view kTranscriptStream =
    "Server-sent events: \"transcript.text.delta\" for each segment, \"transcript.text.done\" at "
    "the end, "
    "and \"data: [DONE]\".";

inline constexpr std::string_view kSpeechSchemas = R"json({
"TranscriptionForm": {"type":"object","required":["file"],"properties":{"file":{"type":"string","format":"binary","description":"WAV, FLAC, Ogg or MP3."},
  "model":{"type":"string"},"language":{"type":"string","description":"ISO 639 code of what is spoken; without it that is heard."},
  "prompt":{"type":"string","description":"What was said before."},"response_format":{"type":"string","enum":["json","text","verbose_json","srt","vtt"]},
  "temperature":{"type":"number","minimum":0,"maximum":1},"timestamp_granularities[]":{"type":"array","items":{"type":"string","enum":["segment","word"]}},
  "stream":{"type":"boolean"},"seed":{"type":"integer","minimum":0},"max_completion_tokens":{"type":"integer","minimum":1,"description":"Of a window."},
  "compression_ratio_threshold":{"type":"number"},"logprob_threshold":{"type":"number"},"no_speech_threshold":{"type":"number"}}},
"Transcript": {"type":"object","required":["text"],"properties":{"text":{"type":"string"},"task":{"type":"string"},"language":{"type":"string"},
  "duration":{"type":"number"},"segments":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"seek":{"type":"integer"},
  "start":{"type":"number"},"end":{"type":"number"},"text":{"type":"string"},"tokens":{"type":"array","items":{"$ref":"#/components/schemas/TokenId"}},
  "temperature":{"type":"number"},"avg_logprob":{"type":"number"},"compression_ratio":{"type":"number"},"no_speech_prob":{"type":"number"}}}},
  "words":{"type":"array","items":{"type":"object","properties":{"word":{"type":"string"},"start":{"type":"number"},"end":{"type":"number"}}}},
  "usage":{"type":"object","properties":{"type":{"type":"string","const":"duration"},"seconds":{"type":"integer"}}}}}
})json";

}  // namespace quire::server
