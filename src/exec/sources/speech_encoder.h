// SpeechEncoder computes on the host the rows that a decoder's cross-attention reads from the mel
// bands of a recording.
#pragma once

#include <cstdint>
#include <memory>

#include "exec/sources/encoder_stack.h"
#include "exec/sources/source_encoder.h"
#include "models/speech/speech_spec.h"

namespace quire {

class SpeechEncoder final : public SourceEncoder {
 public:
  // Finds and checks the encoder's tensors without reading any. Borrows stream and packing.
  // `source` must outlive load().
  static Result<std::unique_ptr<SpeechEncoder>> open(const SpeechSpec& spec,
                                                     const WeightOptions& options,
                                                     const TensorSource& source,
                                                     WeightPacking& packing, HostStream& stream);

  const SpeechSpec& spec() const { return spec_; }
  const DecoderSpec& layers() const override { return spec_.encoder; }
  int64_t weight_bytes() const override { return stack_.weight_bytes(); }
  int64_t workspace_bytes() const override { return stack_.workspace_bytes() + buffer_bytes(); }
  Status load(const LoadOptions& options) override;
  Result<SourceRows> encode(const MediaItem& item) override;

 private:
  SpeechEncoder(const SpeechSpec& spec, const WeightOptions& options, HostStream& stream);
  int64_t buffer_bytes() const;
  void read_positions();
  // convolve() computes out [count, E] = convolution `index` of `in`. The value of a channel at a
  // time is in[channel * channel_stride + time * time_stride]; every `step`-th time has an output.
  struct Signal {
    const float* data;
    int64_t num_channels, num_times, channel_stride, time_stride;
  };
  void convolve(size_t index, const Signal& in, int64_t step, float* out);

  const SpeechSpec spec_;
  HostStream& stream_;
  EncoderStack stack_;
  float* positions_ = nullptr;  // [num_rows, E]
  float* taps_ = nullptr;       // [kMaxPooledRows, widest]: inputs of a convolution, row by row
  float* halves_ = nullptr;     // [num_frames, E]: outputs of the first convolution
  float* rows_ = nullptr;       // [num_rows, E], inputs of the layers
};

}  // namespace quire
