// From an audio file's bytes to a recording.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "media/audio/recording.h"

namespace quire {

// WAV, FLAC, Ogg (Vorbis, Opus, FLAC) and MP3, whose channels are averaged, at `sample_rate`,
// whatever that of the file is. kInvalidArgument: another format, no sound, or samples that are no
// numbers. kTooLarge: beyond the limits. kDataLoss: the file is damaged or ends early. Any thread
// may call it.
Result<Recording> decode_audio(std::span<const std::byte> file, const AudioLimits& limits,
                               int32_t sample_rate);

}  // namespace quire
