// How strong each band of a recording is in each frame, on scales of hearing: what Whisper reads.
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
  float silence = 0.0f;       // the value of every band where there is no sound
};

// The bank of filters for so many bands. Immutable; any thread.
class LogMel {
 public:
  explicit LogMel(int32_t num_bands);

  int32_t num_bands() const { return num_bands_; }
  // Of samples at kSpeechSampleRate, behind which there is silence. The frames are those that hear any
  // of them. The logarithm's floor is that of the loudest frame less 8, so each depends on all.
  Bands compute(std::span<const float> samples) const;

 private:
  struct Filter {
    int32_t first = 0;            // frequency that has a weight
    std::vector<double> weights;  // of it and those behind it
  };
  int32_t num_bands_;
  std::vector<Filter> filters_;
  std::vector<double> window_;

  // How strong the bands of one frame are, into a column of `out` [num_bands, num_frames].
  double write_frame(std::span<const double> power, int32_t frame, int32_t num_frames,
                     float* out) const;
};

}  // namespace quire
