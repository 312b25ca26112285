#include "media/audio/decode_audio.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string_view>
#include <vector>

#include "media/audio/resampler.h"
#include "media/audio/sound_readers.h"
#include "media/intake/file_magic.h"

namespace quire {
namespace {

constexpr int64_t kFramesAtOnce = 8192;
constexpr float kLoudest = 1e6f;  // samples beyond it are not sound

constexpr std::array<FileMagic, 6> kOtherSounds = {{{"ftyp", "MP4 or M4A", 4},
                                                    {"\x1a\x45\xdf\xa3", "WebM"},
                                                    {"FORM", "AIFF"},
                                                    {".snd", "AU"},
                                                    {"caff", "CAF"},
                                                    {"#!AMR", "AMR"}}};

// Returns whether the file begins with an MP3 frame, whose first eleven bits are one.
bool is_mp3(std::span<const std::byte> file) {
  if (starts_with(file, "ID3")) return true;
  return file.size() > 2 && file[0] == std::byte{0xff} &&
         (file[1] & std::byte{0xe0}) == std::byte{0xe0} &&
         (file[1] & std::byte{0x06}) != std::byte{0};  // the layer, which is 0 in AAC frames
}

bool is_sound_file(std::span<const std::byte> file) {
  const bool is_riff = starts_with(file, "RIFF") || starts_with(file, "RF64");
  return (is_riff && starts_with(file, "WAVE", 8)) || starts_with(file, "fLaC") ||
         starts_with(file, "OggS");
}

Result<std::unique_ptr<SoundReader>> open_sound(std::span<const std::byte> file) {
  if (is_sound_file(file)) return open_sound_file(file);
  if (is_mp3(file)) return open_mp3(file);
  return invalid_argument("audio: expected a file in WAV, FLAC, Ogg or MP3, got {}",
                          kind_of(file, kOtherSounds));
}

Status check_header(const SoundReader& reader, const AudioLimits& limits) {
  if (reader.num_channels() < 1 || reader.num_channels() > limits.max_channels) {
    return invalid_argument("audio: expected 1 to {} channels, got {}", limits.max_channels,
                            reader.num_channels());
  }
  if (reader.sample_rate() < limits.min_sample_rate ||
      reader.sample_rate() > limits.max_sample_rate) {
    return invalid_argument("audio: expected a sample rate of {} to {} Hz, got {}",
                            limits.min_sample_rate, limits.max_sample_rate, reader.sample_rate());
  }
  return {};
}

// Appends the mean of the channels of each frame to `means`.
Status take_means(std::span<const float> frames, int32_t channels, std::vector<float>& means) {
  means.clear();
  for (size_t i = 0; i < frames.size(); i += static_cast<size_t>(channels)) {
    float sum = 0.0f;
    for (int32_t channel = 0; channel < channels; ++channel)
      sum += frames[i + static_cast<size_t>(channel)];
    means.push_back(sum / static_cast<float>(channels));
    if (!(std::fabs(means.back()) <= kLoudest))
      return invalid_argument("audio: expected samples of about [-1, 1], got {}", means.back());
  }
  return {};
}

// Reads all samples and returns the number of frames. The header is not trusted: memory grows only
// with samples that were read.
Result<int64_t> read_samples(SoundReader& reader, const AudioLimits& limits, Recording& recording) {
  QUIRE_ASSIGN_OR_RETURN(Resampler resampler,
                         Resampler::create(reader.sample_rate(), recording.sample_rate));
  const auto max_frames = static_cast<int64_t>(limits.max_seconds * reader.sample_rate());
  const int32_t channels = reader.num_channels();
  std::vector<float> frames(static_cast<size_t>(kFramesAtOnce * channels)), means;
  int64_t num_frames = 0, count = 0;
  do {
    QUIRE_ASSIGN_OR_RETURN(count, reader.read(frames));
    const std::span<const float> read =
        std::span(frames).first(static_cast<size_t>(count * channels));
    QUIRE_RETURN_IF_ERROR(take_means(read, channels, means));
    QUIRE_RETURN_IF_ERROR(resampler.put(means, count == 0, recording.samples));
    num_frames += count;
    if (num_frames > max_frames) {
      return too_large("audio: expected at most {} seconds (--max-audio-seconds), got more",
                       limits.max_seconds);
    }
  } while (count > 0);
  return num_frames;
}

}  // namespace

int64_t sample_bytes(double seconds, int32_t sample_rate) {
  return std::llround(seconds * sample_rate) * int64_t{sizeof(float)};
}

Result<Recording> decode_audio(std::span<const std::byte> file, const AudioLimits& limits,
                               int32_t sample_rate, const ReserveBytes& reserve) {
  if (std::ssize(file) > limits.max_bytes) {
    return too_large("audio: expected a file of at most {} bytes (--max-audio-size), got {}",
                     limits.max_bytes, file.size());
  }
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<SoundReader> reader, open_sound(file));
  QUIRE_RETURN_IF_ERROR(check_header(*reader, limits));
  if (reserve && reader->num_frames() > 0) {
    const double seconds =
        static_cast<double>(reader->num_frames()) / static_cast<double>(reader->sample_rate());
    QUIRE_RETURN_IF_ERROR(
        reserve(sample_bytes(std::min(seconds, limits.max_seconds), sample_rate)));
  }
  Recording recording{.sample_rate = sample_rate, .samples = {}};
  QUIRE_ASSIGN_OR_RETURN(const int64_t num_frames, read_samples(*reader, limits, recording));
  if (recording.samples.empty()) return invalid_argument("audio: expected some sound, got none");
  if (reader->num_frames() > num_frames) {
    return data_loss("audio: the file ends early: expected {} samples, got {}",
                     reader->num_frames(), num_frames);
  }
  return recording;
}

}  // namespace quire
