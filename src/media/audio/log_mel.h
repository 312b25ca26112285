// LogMel computes the log-mel spectrogram of a recording, which is the input of Whisper.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

inline constexpr int32_t kSpeechSampleRate = 16'000;  // Hz
inline constexpr int32_t kSamplesPerFrame = 160;

struct Bands {
  int32_t num_frames = 0;
  std::vector<float> values;  // [bands, num_frames]
  float silence = 0.0f;       // the value of every band in silence
};

// A LogMel holds the filters for a number of bands. It is immutable; any thread may use it.
class LogMel {
 public:
  explicit LogMel(int32_t num_bands);

  int32_t num_bands() const { return num_bands_; }
  // Computes the bands of samples at kSpeechSampleRate, which silence follows. There is a frame for
  // every window that contains any of the samples. Values are clamped from below to the greatest of
  // all frames less 8 (in powers of ten), so each depends on all frames.
  Bands compute(std::span<const float> samples) const;

 private:
  struct Filter {
    int32_t first = 0;            // the first frequency with a weight
    std::vector<double> weights;  // of `first` and the frequencies behind it
  };
  int32_t num_bands_;
  std::vector<Filter> filters_;
  std::vector<double> window_;

  // Writes the logarithms of one frame's bands to a column of `out` [num_bands, num_frames], and
  // returns the greatest.
  double write_frame(std::span<const double> power, int32_t frame, int32_t num_frames,
                     float* out) const;
};

}  // namespace quire
