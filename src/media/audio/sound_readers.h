// The decoders behind decode_audio(). Internal to media/audio.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"

namespace quire {

// Reads a file in memory, which outlives it, from the beginning to the end. One thread at a time
// may use it.
class SoundReader {
 public:
  virtual ~SoundReader() = default;
  int32_t sample_rate() const { return sample_rate_; }
  int32_t num_channels() const { return num_channels_; }
  // As many frames of num_channels() samples as there is room for; how many, 0: the file ends.
  virtual Result<int64_t> read(std::span<float> samples) = 0;
  // How many frames there must be in all; -1: the file does not say it exactly.
  virtual int64_t num_frames() const { return -1; }

 protected:
  int32_t sample_rate_ = 0;
  int32_t num_channels_ = 0;
};

// WAV, FLAC and Ogg, by libsndfile.
Result<std::unique_ptr<SoundReader>> open_sound_file(std::span<const std::byte> file);
// By libmpg123, which says nothing of damage on the way: frames that cannot be read are left out.
Result<std::unique_ptr<SoundReader>> open_mp3(std::span<const std::byte> file);

}  // namespace quire
