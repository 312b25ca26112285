// These helpers make audio files for tests.
#pragma once

#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"

namespace quire::test {

struct WrittenFile {
  std::string bytes;
  sf_count_t position = 0;
};

// Returns interleaved frames with tones in each channel, `seconds` long.
inline std::vector<float> tones(int32_t sample_rate, int32_t channels, double seconds) {
  std::vector<float> frames;
  const auto count = static_cast<int64_t>(seconds * sample_rate);
  for (int64_t i = 0; i < count; ++i) {
    for (int32_t channel = 0; channel < channels; ++channel) {
      const double t = static_cast<double>(i) / sample_rate;
      frames.push_back(static_cast<float>(0.4 * std::sin(6.2832 * (300.0 + 200.0 * channel) * t)));
    }
  }
  return frames;
}

// Returns a file of interleaved frames. `format` is SF_FORMAT_WAV | SF_FORMAT_PCM_16 and the like.
inline std::string write_audio(const std::vector<float>& frames, int format, int32_t sample_rate,
                               int32_t channels) {
  WrittenFile file;
  SF_VIRTUAL_IO io{
      [](void* data) -> sf_count_t {
        return static_cast<sf_count_t>(static_cast<WrittenFile*>(data)->bytes.size());
      },
      [](sf_count_t offset, int whence, void* data) -> sf_count_t {
        auto& out = *static_cast<WrittenFile*>(data);
        const auto size = static_cast<sf_count_t>(out.bytes.size());
        const sf_count_t base = whence == SEEK_CUR ? out.position : whence == SEEK_END ? size : 0;
        return out.position = std::max<sf_count_t>(base + offset, 0);
      },
      [](void* to, sf_count_t count, void* data) -> sf_count_t {
        auto& in = *static_cast<WrittenFile*>(data);
        const auto left = static_cast<sf_count_t>(in.bytes.size()) - in.position;
        const sf_count_t some = std::clamp<sf_count_t>(count, 0, std::max<sf_count_t>(left, 0));
        std::memcpy(to, in.bytes.data() + in.position, static_cast<size_t>(some));
        in.position += some;
        return some;
      },
      [](const void* from, sf_count_t count, void* data) -> sf_count_t {
        auto& out = *static_cast<WrittenFile*>(data);
        const auto end = static_cast<size_t>(out.position + count);
        if (out.bytes.size() < end) out.bytes.resize(end);
        std::memcpy(out.bytes.data() + out.position, from, static_cast<size_t>(count));
        out.position += count;
        return count;
      },
      [](void* data) -> sf_count_t { return static_cast<WrittenFile*>(data)->position; }};
  SF_INFO info{};
  info.samplerate = sample_rate;
  info.channels = channels;
  info.format = format;
  SNDFILE* const sound = sf_open_virtual(&io, SFM_WRITE, &info, &file);
  QUIRE_CHECK(sound != nullptr, "{}", sf_strerror(nullptr));
  sf_writef_float(sound, frames.data(), static_cast<sf_count_t>(frames.size()) / channels);
  sf_close(sound);
  return file.bytes;
}

}  // namespace quire::test
