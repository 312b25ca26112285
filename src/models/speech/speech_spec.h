// SpeechSpec describes how a recording becomes the rows that a decoder attends to, as plain data;
// exec/sources/speech_encoder.h computes them.
#pragma once

#include <cstdint>

#include "nn/decoder_spec.h"
#include "weights/names/name_map.h"

namespace quire {

// The bands of a recording go through two convolutions of three frames, the second of which takes
// every other frame. Their outputs are the rows of an encoder in which all rows attend to each
// other.
struct SpeechSpec {
  // The first two of its pooling.layers are the convolutions, as matrices: the columns of an input
  // are, band by band, the three frames.
  DecoderSpec encoder;
  NameMap names;
  int32_t num_bands = 0;
  int32_t num_rows = 0;  // of a window; also the number of positions

  static constexpr int32_t kTaps = 3;  // frames that a convolution reads
  int32_t num_frames() const { return 2 * num_rows; }
};

}  // namespace quire
