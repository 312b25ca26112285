#include "exec/sources/canvas_encoder.h"

#include <algorithm>
#include <utility>

#include "exec/media/encoder_output.h"
#include "models/vision/vision_config.h"

namespace quire {
namespace {

int32_t num_rows(const VisionSpec& spec) {
  constexpr int32_t kMultiple = CanvasSpec::kRowMultiple;
  return spec.canvas.max_tiles * ((spec.max_rows() + kMultiple - 1) / kMultiple * kMultiple);
}

}  // namespace

CanvasEncoder::CanvasEncoder(const VisionSpec& spec, const WeightOptions& options,
                             HostStream& stream)
    : spec_(spec),
      all_layers_(source_encoder(spec)),
      front_(spec_, options, stream),
      local_(spec_.encoder, options, num_rows(spec), stream, spec.max_rows()),
      global_(spec_.canvas.global, options, num_rows(spec), stream, spec.max_rows()) {}

Result<std::unique_ptr<CanvasEncoder>> CanvasEncoder::open(const VisionSpec& spec,
                                                           const WeightOptions& options,
                                                           TowerTensors tensors,
                                                           WeightPacking& packing,
                                                           HostStream& stream) {
  std::unique_ptr<CanvasEncoder> encoder(new CanvasEncoder(spec, options, stream));
  encoder->tensors_ = std::move(tensors);
  const TensorSource& source = encoder->tensors_.source;
  QUIRE_RETURN_IF_ERROR(encoder->front_.open(source, packing));
  QUIRE_RETURN_IF_ERROR(encoder->local_.open(source, spec.names, {}, packing));
  QUIRE_RETURN_IF_ERROR(encoder->global_.open(source, spec.canvas.global_names, {}, packing));
  return encoder;
}

int64_t CanvasEncoder::weight_bytes() const {
  return front_.weight_bytes() + local_.weight_bytes() + global_.weight_bytes();
}

int64_t CanvasEncoder::workspace_bytes() const {
  return local_.workspace_bytes() + global_.workspace_bytes() + buffer_bytes();
}

int64_t CanvasEncoder::buffer_bytes() const {
  const auto floats = [](int64_t count) { return Arena::padded(count * int64_t{sizeof(float)}); };
  const int64_t rows = floats(front_.num_rows() * spec_.encoder.hidden_size);
  return front_.arena_bytes() + rows * (1 + std::ssize(spec_.canvas.layers)) +
         floats(DecoderLimits::kMaxPooledRows * spec_.encoder.pooling.layers.back().num_inputs) +
         floats(spec_.source_rows() * spec_.embedding_width());
}

Status CanvasEncoder::load(const LoadOptions& options) {
  QUIRE_RETURN_IF_ERROR(local_.load(options, buffer_bytes()));
  QUIRE_RETURN_IF_ERROR(global_.load(options, 0));
  Arena& arena = local_.arena();
  QUIRE_RETURN_IF_ERROR(front_.load(options, local_.weights(), local_.decoder(), arena));
  const int64_t size = front_.num_rows() * spec_.encoder.hidden_size;
  rows_ = arena.allocate<float>(size);
  for (size_t i = 0; i < spec_.canvas.layers.size(); ++i)
    outputs_.push_back(arena.allocate<float>(size));
  joined_ = arena.allocate<float>(DecoderLimits::kMaxPooledRows *
                                  spec_.encoder.pooling.layers.back().num_inputs);
  source_ = arena.allocate<float>(spec_.source_rows() * spec_.embedding_width());
  return {};
}

Result<Canvas> CanvasEncoder::canvas_of(const MediaItem& item) const {
  const int32_t side = spec_.image_size;
  const TileGrid grid{.rows = item.height / side, .columns = item.width / side};
  const auto known = std::find_if(spec_.grids.begin(), spec_.grids.end(), [&](const TileGrid& one) {
    return one.rows == grid.rows && one.columns == grid.columns;
  });
  const bool fits = item.height % side == 0 && item.width % side == 0 &&
                    known != spec_.grids.end() && item.num_embeddings == spec_.source_rows() &&
                    std::ssize(item.rgb) == int64_t{3} * item.width * item.height;
  if (!fits) {
    return invalid_argument(
        "image: expected a canvas of at most {} tiles of {} x {} pixels and {} rows, got {} x {} "
        "and {}",
        spec_.canvas.max_tiles, side, side, spec_.source_rows(), item.width, item.height,
        item.num_embeddings);
  }
  return Canvas{.picture = {.rgb = item.rgb.data(), .width = item.width},
                .grid = grid,
                .id = static_cast<size_t>(known - spec_.grids.begin()) + 1};
}

Result<SourceRows> CanvasEncoder::encode(const MediaItem& item) {
  QUIRE_ASSIGN_OR_RETURN(const Canvas canvas, canvas_of(item));
  const int64_t width = spec_.encoder.hidden_size;
  const int32_t num_seen = canvas.grid.size() * front_.tile_rows();
  front_.embed(canvas, rows_);
  std::vector<HiddenTap> taps;
  for (size_t i = 0; i < outputs_.size(); ++i)
    taps.push_back({.layer = spec_.canvas.layers[i] + 1, .out = outputs_[i], .stride = width});
  EncoderRows rows{.rows = rows_, .count = front_.num_rows(), .num_seen = num_seen, .taps = taps};
  std::copy_n(local_.run_rows(rows), front_.num_rows() * width, rows_);
  front_.add_behind(canvas, rows_);
  rows.taps = {};
  project(global_.run_rows(rows));
  const auto size = static_cast<size_t>(spec_.source_rows() * spec_.embedding_width());
  QUIRE_RETURN_IF_ERROR(check_encoder_output("image", {source_, size}));
  return SourceRows{.rows = source_, .count = spec_.source_rows(), .num_shown = num_seen};
}

// An input of the projector is a row of the second encoder's output, followed by, for each of its
// columns, that column in the outputs of the chosen layers of the first encoder.
void CanvasEncoder::project(const float* global) {
  const int64_t width = spec_.encoder.hidden_size, num_outputs = std::ssize(outputs_);
  for (int64_t first = 0; first < spec_.source_rows(); first += DecoderLimits::kMaxPooledRows) {
    const int64_t count = std::min(DecoderLimits::kMaxPooledRows, spec_.source_rows() - first);
    float* to = joined_;
    for (int64_t row = first; row < first + count; ++row) {
      to = std::copy_n(global + row * width, width, to);
      for (int64_t column = 0; column < width; ++column) {
        for (int64_t i = 0; i < num_outputs; ++i)
          *to++ = outputs_[static_cast<size_t>(i)][row * width + column];
      }
    }
    local_.decoder().head().pooling_layer(1, joined_, source_ + first * spec_.embedding_width(),
                                          count);
  }
}

}  // namespace quire
