// decode_audio() decodes an audio file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "media/audio/recording.h"
#include "media/intake/held_bytes.h"

namespace quire {

// Decodes WAV, FLAC, Ogg (Vorbis, Opus, FLAC) and MP3 to one channel, the mean of the file's
// channels, and resamples it to `sample_rate` Hz. Returns kInvalidArgument for another format, a
// file without sound, or samples that are not finite numbers; kTooLarge beyond the limits;
// kDataLoss if the file is damaged or ends early. Any thread may call it.
//
// If the header says how many samples there are, `reserve` is called with the bytes that they will
// take, at most those of the longest recording. Its error ends the decoding.
Result<Recording> decode_audio(std::span<const std::byte> file, const AudioLimits& limits,
                               int32_t sample_rate, const ReserveBytes& reserve = {});
// Returns the bytes of the samples of so many seconds.
int64_t sample_bytes(double seconds, int32_t sample_rate);

}  // namespace quire
