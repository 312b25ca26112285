// SourceEncoder computes the rows that a decoder looks at from what requests are about: a
// recording, a text or a picture.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "core/media.h"
#include "nn/decoder_spec.h"
#include "weights/checkpoint.h"

namespace quire {

struct SourceRows {
  const float* rows = nullptr;  // [count, size of a row], valid until the next one is encoded
  int32_t count = 0;
  // Tokens look at this many of the rows from where the source stands in the prompt on; 0 stands
  // for all.
  int32_t num_shown = 0;
};

// One thread at a time may use it.
class SourceEncoder {
 public:
  virtual ~SourceEncoder() = default;

  virtual const DecoderSpec& layers() const = 0;
  virtual int64_t weight_bytes() const = 0;
  virtual int64_t workspace_bytes() const = 0;
  virtual Status load(const LoadOptions& options) = 0;
  // kInvalidArgument: the item is none that the model was made for, or what comes of it is no number.
  virtual Result<SourceRows> encode(const MediaItem& item) = 0;
};

}  // namespace quire
