// These are the decoders behind decode_audio(). They are internal to media/audio.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"

namespace quire {

// A SoundReader reads a file in memory, which must outlive it, from beginning to end. One thread at
// a time may use it.
class SoundReader {
 public:
  virtual ~SoundReader() = default;
  int32_t sample_rate() const { return sample_rate_; }
  int32_t num_channels() const { return num_channels_; }
  // Reads as many frames of num_channels() samples as fit and returns their number, 0 at the file's
  // end.
  virtual Result<int64_t> read(std::span<float> samples) = 0;
  // Returns the number of frames in the file, or -1 if the file does not say it exactly.
  virtual int64_t num_frames() const { return -1; }

 protected:
  int32_t sample_rate_ = 0;
  int32_t num_channels_ = 0;
};

// Opens WAV, FLAC and Ogg files with libsndfile.
Result<std::unique_ptr<SoundReader>> open_sound_file(std::span<const std::byte> file);
// Opens MP3 files with libmpg123, which does not report damage: it leaves out frames that it cannot
// read.
Result<std::unique_ptr<SoundReader>> open_mp3(std::span<const std::byte> file);

}  // namespace quire
