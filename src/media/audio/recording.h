// A recording in memory, and the bounds that recordings of clients must keep to.
#pragma once

#include <cstdint>
#include <vector>

namespace quire {

// A Recording is one channel of sound, with values in about [-1, 1].
struct Recording {
  int32_t sample_rate = 0;  // Hz
  std::vector<float> samples;

  double seconds() const { return static_cast<double>(samples.size()) / sample_rate; }
};

// AudioLimits are checked against a file's header, and again against what is decoded.
struct AudioLimits {
  int64_t max_bytes = int64_t{25} << 20;  // size of the file
  double max_seconds = 3600.0;
  int32_t max_channels = 16;
  int32_t min_sample_rate = 1000;
  int32_t max_sample_rate = 384'000;
};

}  // namespace quire
