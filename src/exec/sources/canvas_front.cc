#include "exec/sources/canvas_front.h"

#include <algorithm>
#include <cmath>

#include "kernels/api/embedding.h"
#include "kernels/api/norm.h"
#include "nn/weights/decoder_slots.h"

namespace quire {
namespace {

int64_t floats(int64_t count) { return Arena::padded(count * int64_t{sizeof(float)}); }

// to += share * from.
void add_scaled(const float* from, float share, int64_t width, float* to) {
  for (int64_t i = 0; i < width; ++i) to[i] += share * from[i];
}

int32_t filled_rows(const VisionSpec& spec) {
  constexpr int32_t kMultiple = CanvasSpec::kRowMultiple;
  return (spec.max_rows() + kMultiple - 1) / kMultiple * kMultiple;
}

}  // namespace

CanvasFront::CanvasFront(const VisionSpec& spec, const WeightOptions& options, HostStream& stream)
    : spec_(spec), stream_(stream), slots_(options) {
  const int64_t width = spec.encoder.hidden_size;
  const int64_t num_ids = std::ssize(spec.grids) + 1;
  const int64_t tiles_width = spec.canvas.max_tiles * width;
  slots_.add_table(TensorRole::kPositionEmbedding, spec.max_rows(), width, positions_);
  slots_.add_table(TensorRole::kTilePositions, num_ids, tiles_width * spec.max_rows(),
                   tile_positions_);
  slots_.add_table(TensorRole::kTileBefore, num_ids, tiles_width, before_);
  slots_.add_table(TensorRole::kTileBehind, num_ids, tiles_width, behind_);
  slots_.add_vector(-1, {TensorRole::kTilePositionGate, 1}, position_gate_);
  slots_.add_vector(-1, {TensorRole::kTileBeforeGate, 1}, before_gate_);
  slots_.add_vector(-1, {TensorRole::kTileBehindGate, 1}, behind_gate_);
  add_norm_slots(slots_, spec.encoder, -1, TensorRole::kEmbeddingNorm, norm_);
}

Status CanvasFront::open(const TensorSource& source, WeightPacking& packing) {
  QUIRE_ASSIGN_OR_RETURN(
      plan_, resolve_checkpoint(slots_.all(), spec_.canvas.front_names, {}, source, packing));
  return {};
}

int32_t CanvasFront::num_rows() const { return spec_.canvas.max_tiles * filled_rows(spec_); }

int64_t CanvasFront::arena_bytes() const {
  const int64_t width = spec_.encoder.hidden_size, tiles = spec_.canvas.max_tiles;
  return floats(DecoderLimits::kMaxPooledRows * spec_.patch_elements()) + floats(width) +
         floats(tile_rows() * width) + floats(tiles * tile_rows() * width) +
         2 * floats(tiles * width);
}

Status CanvasFront::load(const LoadOptions& options, const DecoderWeights& weights,
                         Decoder& decoder, Arena& arena) {
  QUIRE_ASSIGN_OR_RETURN(weight_arena_, Arena::create(plan_.arena_bytes()));
  QUIRE_RETURN_IF_ERROR(load_checkpoint(plan_, weight_arena_, options));
  decoder_ = &decoder;
  const int64_t width = spec_.encoder.hidden_size, tiles = spec_.canvas.max_tiles;
  patches_ = arena.allocate<float>(DecoderLimits::kMaxPooledRows * spec_.patch_elements());
  class_row_ = arena.allocate<float>(width);
  all_positions_ = arena.allocate<float>(tile_rows() * width);
  of_tiles_ = arena.allocate<float>(tiles * tile_rows() * width);
  before_rows_ = arena.allocate<float>(tiles * width);
  behind_rows_ = arena.allocate<float>(tiles * width);
  read_row(weights.token_embedding(), 0, width, class_row_);
  for (int32_t row = 0; row < tile_rows(); ++row)
    read_row(positions_, static_cast<size_t>(row), width, all_positions_ + row * width);
  return {};
}

void CanvasFront::read_row(const TableWeight& table, size_t row, int64_t size, float* out) {
  const auto id = static_cast<TokenId>(row);
  embedding(stream_, {.token_ids = &id,
                      .table = table.data,
                      .packed_table = table.packed ? &*table.packed : nullptr,
                      .table_dtype = table.dtype,
                      .out = out,
                      .num_tokens = 1,
                      .hidden_size = size});
}

void CanvasFront::embed(const Canvas& canvas, float* rows) {
  const int64_t width = spec_.encoder.hidden_size, tiles = spec_.canvas.max_tiles;
  read_row(before_, canvas.id, tiles * width, before_rows_);
  read_row(tile_positions_, canvas.id, tiles * tile_rows() * width, of_tiles_);
  for (int32_t tile = 0; tile < tiles; ++tile)
    embed_tile(canvas, tile, rows + int64_t{tile} * tile_rows() * width);
  const int64_t num_real = tiles * tile_rows();
  layer_norm(stream_, {.x = rows,
                       .weight = norm_.weight,
                       .bias = norm_.bias,
                       .out = rows,
                       .eps = spec_.encoder.norm_eps,
                       .num_tokens = num_real,
                       .hidden_size = width});
  std::fill(rows + num_real * width, rows + num_rows() * width, 0.0f);
}

// The patches of tiles that the canvas does not have are zeros.
void CanvasFront::embed_tile(const Canvas& canvas, int32_t tile, float* rows) {
  const int64_t width = spec_.encoder.hidden_size, num_patches = tile_rows() - 1;
  const int32_t side = spec_.image_size / spec_.patch_size;
  const bool is_there = tile < canvas.grid.size();
  const int32_t top = is_there ? tile / canvas.grid.columns * side : 0;
  const int32_t left = is_there ? tile % canvas.grid.columns * side : 0;
  float* const patch_rows = std::copy_n(class_row_, width, rows);
  std::fill_n(patch_rows, num_patches * width, 0.0f);
  for (int64_t first = 0; is_there && first < num_patches; first += DecoderLimits::kMaxPooledRows) {
    const int64_t count = std::min(DecoderLimits::kMaxPooledRows, num_patches - first);
    for (int64_t i = 0; i < count; ++i) {
      const auto patch = static_cast<int32_t>(first + i);
      cut_patch(spec_, canvas.picture, {.y = top + patch / side, .x = left + patch % side},
                patches_ + i * spec_.patch_elements());
    }
    decoder_->head().pooling_layer(0, patches_, patch_rows + first * width, count);
  }
  const float before = std::tanh(*before_gate_), gate = std::tanh(*position_gate_);
  for (int64_t row = 0; row < tile_rows(); ++row) {
    float* const to = rows + row * width;
    if (row > 0) add_scaled(before_rows_ + tile * width, before, width, to);
    add_scaled(all_positions_ + row * width, 1.0f - gate, width, to);
    add_scaled(of_tiles_ + (tile * tile_rows() + row) * width, gate, width, to);
  }
}

void CanvasFront::add_behind(const Canvas& canvas, float* rows) {
  const int64_t width = spec_.encoder.hidden_size, tiles = spec_.canvas.max_tiles;
  const int64_t num_filled = filled_rows(spec_) - tile_rows();
  read_row(behind_, canvas.id, tiles * width, behind_rows_);
  const float share = std::tanh(*behind_gate_);
  for (int64_t row = 0; row < num_rows(); ++row) {
    const int64_t num_real = tiles * tile_rows();
    const int64_t tile = row < num_real ? row / tile_rows() : (row - num_real) / num_filled;
    add_scaled(behind_rows_ + tile * width, share, width, rows + row * width);
  }
}

}  // namespace quire
