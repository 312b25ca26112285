// decode_audio() decodes an audio file.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "media/audio/recording.h"

namespace quire {

// Decodes WAV, FLAC, Ogg (Vorbis, Opus, FLAC) and MP3 to one channel, the mean of the file's
// channels, and resamples it to `sample_rate` Hz. Returns kInvalidArgument for another format, a
// file without sound, or samples that are not finite numbers; kTooLarge beyond the limits;
// kDataLoss if the file is damaged or ends early. Any thread may call it.
Result<Recording> decode_audio(std::span<const std::byte> file, const AudioLimits& limits,
                               int32_t sample_rate);

}  // namespace quire
