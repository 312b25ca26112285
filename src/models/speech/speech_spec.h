// What makes rows of a recording for a decoder to look at, as plain data: exec/sources/speech_encoder.h
// carries it out.
#pragma once

#include <cstdint>

#include "nn/decoder_spec.h"
#include "weights/names/name_map.h"

namespace quire {

// A recording's bands go through two convolutions of three frames, of which the second takes every
// other frame; what comes of them are the rows of an encoder in which all see each other.
struct SpeechSpec {
  // Its first two pooling.layers are the convolutions, as matrices: an input's column is band by band
  // the three frames around it.
  DecoderSpec encoder;
  NameMap names;
  int32_t num_bands = 0;
  int32_t num_rows = 0;  // of a window, and so many positions

  static constexpr int32_t kTaps = 3;  // frames that a convolution sees
  int32_t num_frames() const { return 2 * num_rows; }
};

}  // namespace quire
