#include "exec/sources/speech_encoder.h"

#include <algorithm>

#include "exec/media/encoder_output.h"
#include "kernels/api/embedding.h"
#include "models/speech/speech_config.h"

namespace quire {
namespace {

constexpr int64_t kTaps = SpeechSpec::kTaps;

int64_t widest_input(const SpeechSpec& spec) {
  int64_t widest = 0;
  for (const PoolingLayerSpec& layer : spec.encoder.pooling.layers)
    widest = std::max(widest, layer.num_inputs);
  return widest;
}

}  // namespace

SpeechEncoder::SpeechEncoder(const SpeechSpec& spec, const WeightOptions& options,
                             HostStream& stream)
    : spec_(spec), stream_(stream), stack_(spec_.encoder, options, spec_.num_rows, stream) {}

Result<std::unique_ptr<SpeechEncoder>> SpeechEncoder::open(const SpeechSpec& spec,
                                                           const WeightOptions& options,
                                                           const TensorSource& source,
                                                           WeightPacking& packing,
                                                           HostStream& stream) {
  std::unique_ptr<SpeechEncoder> encoder(new SpeechEncoder(spec, options, stream));
  QUIRE_RETURN_IF_ERROR(encoder->stack_.open(speech_tensors(source), spec.names, {}, packing));
  return encoder;
}

int64_t SpeechEncoder::buffer_bytes() const {
  const auto floats = [](int64_t count) { return Arena::padded(count * int64_t{sizeof(float)}); };
  const int64_t width = spec_.encoder.hidden_size;
  return 2 * floats(spec_.num_rows * width) + floats(spec_.num_frames() * width) +
         floats(DecoderLimits::kMaxPooledRows * widest_input(spec_));
}

Status SpeechEncoder::load(const LoadOptions& options) {
  QUIRE_RETURN_IF_ERROR(stack_.load(options, buffer_bytes()));
  const int64_t width = spec_.encoder.hidden_size;
  positions_ = stack_.arena().allocate<float>(spec_.num_rows * width);
  rows_ = stack_.arena().allocate<float>(spec_.num_rows * width);
  halves_ = stack_.arena().allocate<float>(spec_.num_frames() * width);
  taps_ = stack_.arena().allocate<float>(DecoderLimits::kMaxPooledRows * widest_input(spec_));
  read_positions();
  return {};
}

// Reads the positions as float32.
void SpeechEncoder::read_positions() {
  const TableWeight& table = stack_.weights().position_embedding();
  embedding(stream_, {.token_ids = stack_.sequence(),
                      .table = table.data,
                      .table_dtype = table.dtype,
                      .out = positions_,
                      .num_tokens = spec_.num_rows,
                      .hidden_size = spec_.encoder.hidden_size});
}

// Times before the first one and behind the last one are silent: zeros.
void SpeechEncoder::convolve(size_t index, const Signal& in, int64_t step, float* out) {
  const int64_t num_outputs = in.num_times / step;
  for (int64_t first = 0; first < num_outputs; first += DecoderLimits::kMaxPooledRows) {
    const int64_t count = std::min(DecoderLimits::kMaxPooledRows, num_outputs - first);
    float* to = taps_;
    for (int64_t row = first; row < first + count; ++row) {
      for (int64_t channel = 0; channel < in.num_channels; ++channel) {
        for (int64_t time = row * step - 1; time < row * step - 1 + kTaps; ++time) {
          const bool is_inside = time >= 0 && time < in.num_times;
          *to++ = is_inside ? in.data[channel * in.channel_stride + time * in.time_stride] : 0.0f;
        }
      }
    }
    stack_.decoder().head().pooling_layer(index, taps_, out + first * spec_.encoder.hidden_size,
                                          count);
  }
}

Result<SourceRows> SpeechEncoder::encode(const MediaItem& item) {
  const int64_t num_bands = spec_.num_bands, num_frames = spec_.num_frames();
  const int64_t width = spec_.encoder.hidden_size;
  if (item.height != num_bands || item.width != num_frames ||
      item.num_embeddings != spec_.num_rows || std::ssize(item.bands) != num_bands * num_frames) {
    return invalid_argument("recording: expected {} bands of {} frames, got {} of {}", num_bands,
                            num_frames, item.height, item.width);
  }
  convolve(0, {item.bands.data(), num_bands, num_frames, num_frames, 1}, 1, halves_);
  convolve(1, {halves_, width, num_frames, 1, width}, 2, rows_);
  for (int64_t i = 0; i < spec_.num_rows * width; ++i) rows_[i] += positions_[i];
  const float* const out = stack_.run_rows({.rows = rows_, .count = spec_.num_rows});
  QUIRE_RETURN_IF_ERROR(
      check_encoder_output("recording", {out, static_cast<size_t>(spec_.num_rows * width)}));
  return SourceRows{out, spec_.num_rows};
}

}  // namespace quire
