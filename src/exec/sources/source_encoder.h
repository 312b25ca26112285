// SourceEncoder computes the rows that a decoder's cross-attention reads from a request's source: a
// recording, a text or a picture.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "core/media.h"
#include "nn/decoder_spec.h"
#include "weights/checkpoint.h"

namespace quire {

struct SourceRows {
  const float* rows = nullptr;  // [count, size of a row], valid until the next item is encoded
  int32_t count = 0;
  // Tokens at or after the source's place in the prompt attend to the first num_shown rows; 0: to
  // all.
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
  // kInvalidArgument: the item is not of the kind that the model reads, or a row is not finite.
  virtual Result<SourceRows> encode(const MediaItem& item) = 0;
};

}  // namespace quire
