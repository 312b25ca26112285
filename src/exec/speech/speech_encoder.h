// SpeechEncoder: from the bands of a recording to the rows that a decoder looks at, on the host. One
// recording at a time, so that its bits are its own (law L4).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "core/media.h"
#include "device/stream.h"
#include "models/speech/speech_spec.h"
#include "nn/decoder.h"
#include "nn/decoder_weights.h"
#include "tensor/arena.h"
#include "weights/checkpoint.h"

namespace quire {

// One thread at a time.
class SpeechEncoder {
 public:
  // Finds and checks the encoder's tensors; reads none. Borrows stream and packing. `source` must
  // outlive load().
  static Result<std::unique_ptr<SpeechEncoder>> open(const SpeechSpec& spec,
                                                     const WeightOptions& options,
                                                     const TensorSource& source,
                                                     WeightPacking& packing, HostStream& stream);

  const SpeechSpec& spec() const { return spec_; }
  int64_t weight_bytes() const { return plan_.arena_bytes(); }
  int64_t workspace_bytes() const;
  Status load(const LoadOptions& options);

  // [num_rows, E], valid until the next call. kInvalidArgument: the recording is of another size, or
  // what comes of it is no number.
  Result<const float*> encode(const MediaItem& item);

 private:
  SpeechEncoder(const SpeechSpec& spec, const WeightOptions& options, HostStream& stream);
  void place_buffers();
  void read_positions();
  std::vector<LayerCache> one_cache();
  // out [count, E] = convolution `index` of in, of which a channel's value at a time stands at
  // in[channel * channel_stride + time * time_stride]; every `step`-th time has an output.
  struct Signal {
    const float* data;
    int64_t num_channels, num_times, channel_stride, time_stride;
  };
  void convolve(size_t index, const Signal& in, int64_t step, float* out);
  const float* run_layers();

  const SpeechSpec spec_;
  HostStream& stream_;
  DecoderWeights weights_;
  TensorSource source_;
  LoadPlan plan_;
  DecoderLimits limits_;
  Arena weight_arena_, workspace_;
  std::unique_ptr<Decoder> decoder_;
  float* positions_ = nullptr;  // [num_rows, E]
  float* taps_ = nullptr;       // [kMaxPooledRows, widest]: what a convolution reads, row by row
  float* halves_ = nullptr;     // [num_frames, E]: of the first convolution
  float* rows_ = nullptr;       // [num_rows, E], what the layers begin with
  std::vector<int32_t> zeros_, sequence_, axis_positions_, block_table_;
  std::vector<int64_t> slots_;
};

}  // namespace quire
