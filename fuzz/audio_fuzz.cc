// The input is an audio file: WAV, FLAC, Ogg or MP3, possibly malformed.
#include <cstddef>
#include <cstdint>
#include <span>

#include "media/audio/decode_audio.h"
#include "media/audio/log_mel.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const quire::AudioLimits limits{.max_bytes = 1 << 16, .max_seconds = 2.0, .max_channels = 4};
  const auto recording =
      quire::decode_audio(std::as_bytes(std::span(data, size)), limits, quire::kSpeechSampleRate);
  if (!recording.ok()) return 0;
  static const quire::LogMel log_mel(8);
  for (const float value : log_mel.compute(recording->samples).values) {
    if (!(value >= -2.0f && value <= 10.0f)) __builtin_trap();
  }
  return 0;
}
