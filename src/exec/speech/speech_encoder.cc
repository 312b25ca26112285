#include "exec/speech/speech_encoder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/api/embedding.h"
#include "models/speech/speech_config.h"

namespace quire {
namespace {

constexpr int64_t kRowsAtOnce = DecoderLimits::kMaxPooledRows;
constexpr int32_t kBlockSize = 16;
constexpr int64_t kTaps = SpeechSpec::kTaps;

int64_t num_blocks(const SpeechSpec& spec) { return (spec.num_rows + kBlockSize - 1) / kBlockSize; }

// Of keys, and as many of values.
int64_t cache_floats(const SpeechSpec& spec) {
  return num_blocks(spec) * kBlockSize * spec.encoder.layers.front().attention.kv_rows();
}

int64_t widest_input(const SpeechSpec& spec) {
  int64_t widest = 0;
  for (const PoolingLayerSpec& layer : spec.encoder.pooling.layers)
    widest = std::max(widest, layer.num_inputs);
  return widest;
}

}  // namespace

SpeechEncoder::SpeechEncoder(const SpeechSpec& spec, const WeightOptions& options,
                             HostStream& stream)
    : spec_(spec),
      stream_(stream),
      weights_(spec_.encoder, options),
      source_(std::vector<RawTensor>()) {
  limits_ = {.max_tokens = spec_.num_rows,
             .max_reqs = 1,
             .max_seq_len = spec_.num_rows,
             .max_logit_rows = 1};
}

Result<std::unique_ptr<SpeechEncoder>> SpeechEncoder::open(const SpeechSpec& spec,
                                                           const WeightOptions& options,
                                                           const TensorSource& source,
                                                           WeightPacking& packing,
                                                           HostStream& stream) {
  std::unique_ptr<SpeechEncoder> encoder(new SpeechEncoder(spec, options, stream));
  encoder->source_ = speech_tensors(source);
  QUIRE_ASSIGN_OR_RETURN(encoder->plan_, resolve_checkpoint(encoder->weights_.slots(), spec.names,
                                                            {}, encoder->source_, packing));
  return encoder;
}

int64_t SpeechEncoder::workspace_bytes() const {
  const auto floats = [](int64_t count) { return Arena::padded(count * int64_t{sizeof(float)}); };
  const int64_t width = spec_.encoder.hidden_size;
  return decoder_memory(spec_.encoder, weights_, limits_, stream_).total() +
         2 * floats(spec_.num_rows * width) + floats(spec_.num_frames() * width) +
         floats(kRowsAtOnce * widest_input(spec_)) + 2 * floats(cache_floats(spec_));
}

Status SpeechEncoder::load(const LoadOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(weight_arena_, Arena::create(plan_.arena_bytes()));
  QUIRE_RETURN_IF_ERROR(load_checkpoint(plan_, weight_arena_, options));
  QUIRE_ASSIGN_OR_RETURN(workspace_, Arena::create(workspace_bytes()));
  place_buffers();
  read_positions();
  return {};
}

void SpeechEncoder::place_buffers() {
  const auto num_rows = static_cast<size_t>(spec_.num_rows);
  const int64_t width = spec_.encoder.hidden_size;
  decoder_ = std::make_unique<Decoder>(spec_.encoder, weights_, limits_, stream_, workspace_);
  positions_ = workspace_.allocate<float>(spec_.num_rows * width);
  rows_ = workspace_.allocate<float>(spec_.num_rows * width);
  halves_ = workspace_.allocate<float>(spec_.num_frames() * width);
  taps_ = workspace_.allocate<float>(kRowsAtOnce * widest_input(spec_));
  decoder_->bind_cache(one_cache());
  zeros_.assign(num_rows, 0);
  axis_positions_.assign(3 * num_rows, 0);
  sequence_.resize(num_rows);
  std::iota(sequence_.begin(), sequence_.end(), 0);
  slots_.resize(num_rows);
  std::iota(slots_.begin(), slots_.end(), 0);
  block_table_.resize(static_cast<size_t>(num_blocks(spec_)));
  std::iota(block_table_.begin(), block_table_.end(), 0);
}

// As float32.
void SpeechEncoder::read_positions() {
  const TableWeight& table = weights_.position_embedding();
  embedding(stream_, {.token_ids = sequence_.data(),
                      .table = table.data,
                      .table_dtype = table.dtype,
                      .out = positions_,
                      .num_tokens = spec_.num_rows,
                      .hidden_size = spec_.encoder.hidden_size});
}

// Keys and values of a layer are read before those of the next one are written: all have one place.
std::vector<LayerCache> SpeechEncoder::one_cache() {
  const AttentionSpec& attention = spec_.encoder.layers.front().attention;
  const KvCacheView view{.key = workspace_.allocate<float>(cache_floats(spec_)),
                         .value = workspace_.allocate<float>(cache_floats(spec_)),
                         .dtype = DType::kF32,
                         .block_stride = attention.kv_rows() * kBlockSize,
                         .block_size = kBlockSize,
                         .num_kv_heads = attention.num_kv_heads,
                         .head_dim = attention.head_dim};
  return std::vector<LayerCache>(spec_.encoder.layers.size(), LayerCache{.view = view, .group = 0});
}

// Before the first time and behind the last one there is silence: zeros.
void SpeechEncoder::convolve(size_t index, const Signal& in, int64_t step, float* out) {
  const int64_t num_outputs = in.num_times / step;
  for (int64_t first = 0; first < num_outputs; first += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, num_outputs - first);
    float* to = taps_;
    for (int64_t row = first; row < first + count; ++row) {
      for (int64_t channel = 0; channel < in.num_channels; ++channel) {
        for (int64_t time = row * step - 1; time < row * step - 1 + kTaps; ++time) {
          const bool is_inside = time >= 0 && time < in.num_times;
          *to++ = is_inside ? in.data[channel * in.channel_stride + time * in.time_stride] : 0.0f;
        }
      }
    }
    decoder_->pooling_layer(index, taps_, out + first * spec_.encoder.hidden_size, count);
  }
}

const float* SpeechEncoder::run_layers() {
  const GivenRows given{.first = 0, .count = spec_.num_rows, .rows = rows_};
  const KvGroupInputs group{.slot_mapping = slots_.data(),
                            .block_table = block_table_.data(),
                            .max_blocks = std::ssize(block_table_)};
  const int32_t bounds[2] = {0, spec_.num_rows};
  decoder_->forward({.num_tokens = spec_.num_rows,
                     .num_reqs = 1,
                     .input_ids = zeros_.data(),
                     .positions = sequence_.data(),
                     .axis_positions = axis_positions_.data(),
                     .query_start_loc = bounds,
                     .seq_lens = &spec_.num_rows,
                     .max_query_len = spec_.num_rows,
                     .groups = {&group, 1},
                     .given_rows = {&given, 1}});
  return decoder_->final_hidden(spec_.num_rows);
}

Result<const float*> SpeechEncoder::encode(const MediaItem& item) {
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
  const float* const out = run_layers();
  const bool all_finite = std::all_of(out, out + spec_.num_rows * width,
                                      [](float value) { return std::isfinite(value); });
  if (!all_finite)
    return invalid_argument("recording: the model makes values of it that are no numbers");
  return out;
}

}  // namespace quire
