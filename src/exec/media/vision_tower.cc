#include "exec/media/vision_tower.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "exec/media/encoder_kv.h"
#include "exec/media/encoder_output.h"
#include "kernels/api/norm.h"
#include "nn/decoder/decoder_memory.h"

namespace quire {
namespace {

constexpr int32_t kBlockSize = EncoderKv::kBlockSize;

int64_t blocks_of(int64_t num_rows) { return EncoderKv::blocks_of(num_rows); }

// Counts one block more per window, because each window may leave a block partly empty.
int64_t num_blocks(const VisionSpec& spec) {
  return blocks_of(spec.max_rows()) + spec.max_windows();
}

EncoderKv cache_of(const VisionSpec& spec) {
  return {spec.encoder.layers.front().attention, num_blocks(spec)};
}

int64_t widest_projection(const VisionSpec& spec) {
  int64_t widest = 0;
  for (const PoolingLayerSpec& layer : spec.encoder.pooling.layers)
    widest = std::max(widest, layer.num_outputs);
  return widest;
}

// The elements of all patches of a cell.
int64_t cell_elements(const VisionSpec& spec) {
  return spec.patches_per_cell() * spec.encoder.hidden_size;
}

// The floats of all embeddings of an item's tiles, before they are put in order.
int64_t tile_floats(const VisionSpec& spec) {
  if (spec.grids.empty()) return 0;
  return int64_t{spec.max_tiles()} * spec.tile_embeddings() * spec.embedding_size();
}

int64_t window_blocks(const VisionSpec& spec) {
  return blocks_of(int64_t{spec.window_cells} * spec.window_cells * spec.patches_per_cell());
}

}  // namespace

VisionTower::VisionTower(const VisionSpec& spec, const WeightOptions& options, HostStream& stream)
    : spec_(spec), stream_(stream), weights_(spec_.encoder, options) {
  limits_ = {.max_tokens = spec_.max_rows(),
             .max_reqs = spec_.max_windows(),
             .max_seq_len = spec_.max_rows(),
             .max_logit_rows = 1};
}

Result<std::unique_ptr<VisionTower>> VisionTower::open(const VisionSpec& spec,
                                                       const WeightOptions& options,
                                                       TowerTensors tensors, WeightPacking& packing,
                                                       HostStream& stream) {
  std::unique_ptr<VisionTower> tower(new VisionTower(spec, options, stream));
  tower->tensors_ = std::move(tensors);
  QUIRE_ASSIGN_OR_RETURN(tower->plan_, resolve_checkpoint(tower->weights_.slots(), spec.names, {},
                                                          tower->tensors_.source, packing));
  return tower;
}

int64_t VisionTower::workspace_bytes() const {
  const auto floats = [](int64_t count) { return Arena::padded(count * int64_t{sizeof(float)}); };
  return decoder_memory(spec_.encoder, weights_, limits_, stream_).total() +
         PatchRows::arena_bytes(spec_) + floats(spec_.max_rows() * spec_.encoder.hidden_size) +
         floats(DecoderLimits::kMaxPooledRows * cell_elements(spec_)) +
         floats(2 * DecoderLimits::kMaxPooledRows * widest_projection(spec_)) +
         floats(tile_floats(spec_)) + floats(spec_.embedding_size()) + cache_of(spec_).bytes();
}

Status VisionTower::load(const LoadOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(weight_arena_, Arena::create(plan_.arena_bytes()));
  QUIRE_RETURN_IF_ERROR(load_checkpoint(plan_, weight_arena_, options));
  QUIRE_ASSIGN_OR_RETURN(workspace_, Arena::create(workspace_bytes()));
  place_buffers();
  return {};
}

void VisionTower::place_buffers() {
  const auto max_rows = static_cast<size_t>(spec_.max_rows());
  decoder_ = std::make_unique<Decoder>(spec_.encoder, weights_, limits_, stream_, workspace_);
  patch_rows_ = std::make_unique<PatchRows>(spec_, weights_, *decoder_, stream_, workspace_);
  rows_ = workspace_.allocate<float>(spec_.max_rows() * spec_.encoder.hidden_size);
  cells_ = workspace_.allocate<float>(DecoderLimits::kMaxPooledRows * cell_elements(spec_));
  projected_ =
      workspace_.allocate<float>(2 * DecoderLimits::kMaxPooledRows * widest_projection(spec_));
  tiles_ = workspace_.allocate<float>(tile_floats(spec_));
  line_break_ = workspace_.allocate<float>(spec_.embedding_size());
  decoder_->bind_cache(layer_caches());
  constexpr float kOne = 1.0f;
  const size_t last_layer = spec_.encoder.pooling.layers.size() - 1;
  if (!spec_.grids.empty()) decoder_->head().pooling_layer(last_layer, &kOne, line_break_, 1);
  ones_.assign(static_cast<size_t>(cell_elements(spec_)), 1.0f);
  zeros_.assign(max_rows, 0);
  sequence_.resize(max_rows);
  std::iota(sequence_.begin(), sequence_.end(), 0);
  axis_positions_.assign(3 * max_rows, 0);
  slots_.resize(max_rows);
  std::iota(slots_.begin(), slots_.end(), 0);
  block_table_.resize(static_cast<size_t>(blocks_of(spec_.max_rows())));
  std::iota(block_table_.begin(), block_table_.end(), 0);
  window_slots_.resize(max_rows);
  window_lens_.resize(static_cast<size_t>(spec_.max_windows()));
  window_table_.resize(window_lens_.size() * static_cast<size_t>(window_blocks(spec_)));
}

std::vector<LayerCache> VisionTower::layer_caches() {
  const KvCacheView view = cache_of(spec_).place(workspace_);
  std::vector<LayerCache> caches;
  for (size_t layer = 0; layer < spec_.encoder.layers.size(); ++layer) {
    const bool has_windows = spec_.window_cells > 0 && spec_.layer_has_windows[layer];
    caches.push_back({.view = view, .group = has_windows ? 1 : 0});
  }
  return caches;
}

Status VisionTower::check_tiles(const MediaItem& item) const {
  const int32_t side = spec_.image_size, num_tiles = item.height / side;
  const int32_t num_embeddings = num_tiles * spec_.tile_embeddings();
  const auto exists = [&](int32_t embedding) {
    return embedding >= MediaItem::kLineBreak && embedding < num_embeddings;
  };
  if (!spec_.grids.empty() && item.width == side && item.height % side == 0 && num_tiles > 0 &&
      num_tiles <= spec_.max_tiles() && item.num_embeddings == std::ssize(item.order) &&
      item.num_embeddings <= spec_.max_embeddings() &&
      std::ssize(item.rgb) == int64_t{3} * item.width * item.height &&
      std::all_of(item.order.begin(), item.order.end(), exists))
    return {};
  return invalid_argument(
      "image: expected at most {} tiles of {} x {} pixels and {} embeddings of them, got {} x {} "
      "and "
      "{}",
      spec_.max_tiles(), side, side, spec_.max_embeddings(), item.width, item.height,
      item.num_embeddings);
}

Status VisionTower::check_size(const MediaItem& item) const {
  if (!item.order.empty()) return check_tiles(item);
  const int32_t side = spec_.image_size, cell = spec_.cell_size();
  const int64_t num_cells = int64_t{item.width / cell} * (item.height / cell);
  // A table of positions per axis limits the number of patches on each side.
  const int64_t most_patches = spec_.positions == PatchPositions::kPerAxis
                                   ? spec_.encoder.num_positions / 2
                                   : std::numeric_limits<int32_t>::max();
  const bool fits = side > 0
                        ? item.width == side && item.height == side
                        : item.width % cell == 0 && item.height % cell == 0 && num_cells > 0 &&
                              num_cells <= spec_.max_cells &&
                              std::max(item.width, item.height) / spec_.patch_size <= most_patches;
  if (fits && std::ssize(item.rgb) == int64_t{3} * item.width * item.height &&
      item.num_embeddings == spec_.num_embeddings(static_cast<int32_t>(num_cells)))
    return {};
  if (side > 0) {
    return invalid_argument("image: expected {} x {} pixels and {} embeddings, got {} x {} and {}",
                            side, side, spec_.tile_embeddings(), item.width, item.height,
                            item.num_embeddings);
  }
  return invalid_argument(
      "image: expected sides that are multiples of {}, and one embedding for each of at most {} "
      "such squares, got {} x {} and {}",
      cell, spec_.max_cells, item.width, item.height, item.num_embeddings);
}

// The keys of each window begin in a block of their own.
void VisionTower::cut_windows(const PictureGrid& grid) {
  const int64_t max_blocks = window_blocks(spec_);
  int32_t block = 0;
  for (int32_t window = 0; window < grid.num_windows(); ++window) {
    const int32_t begin = grid.window_starts[static_cast<size_t>(window)];
    const int32_t end = grid.window_starts[static_cast<size_t>(window) + 1];
    window_lens_[static_cast<size_t>(window)] = end - begin;
    for (int32_t row = begin; row < end; ++row)
      window_slots_[static_cast<size_t>(row)] = int64_t{block} * kBlockSize + row - begin;
    for (int64_t i = 0; i < blocks_of(end - begin); ++i)
      window_table_[static_cast<size_t>(window * max_blocks + i)] = block++;
  }
}

void VisionTower::run_layers(const PictureGrid& grid, float* out) {
  const int32_t num_rows = spec_.num_rows(grid.num_cells());
  const GivenRows given{.first = 0, .count = num_rows, .rows = rows_};
  KvGroupInputs groups[2] = {{.slot_mapping = slots_.data(),
                              .block_table = block_table_.data(),
                              .max_blocks = std::ssize(block_table_)},
                             {.slot_mapping = window_slots_.data(),
                              .block_table = window_table_.data(),
                              .max_blocks = window_blocks(spec_)}};
  if (spec_.window_cells > 0) {
    cut_windows(grid);
    groups[1].num_windows = grid.num_windows();
    groups[1].window_start_loc = grid.window_starts.data();
    groups[1].window_lens = window_lens_.data();
  }
  const int32_t bounds[2] = {0, num_rows};
  const ForwardInputs inputs{.num_tokens = num_rows,
                             .num_reqs = 1,
                             .input_ids = zeros_.data(),
                             .positions = sequence_.data(),
                             .axis_positions = axis_positions_.data(),
                             .query_start_loc = bounds,
                             .seq_lens = &num_rows,
                             .max_query_len = num_rows,
                             .groups = groups,
                             .given_rows = {&given, 1}};
  for (size_t piece = 0; piece < decoder_->num_pieces(); ++piece) {
    decoder_->run_piece(inputs, piece);
    for (size_t tap = 0; tap < spec_.tap_layers.size(); ++tap) {
      if (static_cast<size_t>(spec_.tap_layers[tap]) + 1 == piece)
        project(grid, decoder_->hidden(), tap + 1, out);
    }
    if (piece + 1 < decoder_->num_pieces()) decoder_->mix(inputs, piece);
  }
  const int64_t skipped =
      num_rows - spec_.num_embeddings(grid.num_cells()) * int64_t{spec_.patches_per_cell()};
  project(grid, decoder_->head().final_hidden(num_rows) + skipped * spec_.encoder.hidden_size, 0,
          out);
}

// Returns what a projector reads of `count` cells.
const float* VisionTower::projector_input(size_t layer, const float* from, int64_t count) {
  from = cell_rows(from, count);
  const std::optional<InputNormSpec>& norm = spec_.encoder.pooling.layers[layer].input_norm;
  if (!norm) return from;
  const NormWeights& weights = weights_.pooling_layer(layer).input_norm;
  const int64_t size = spec_.encoder.pooling.layers[layer].num_inputs;
  if (norm->shifts_input) {
    if (from != cells_) std::copy_n(from, count * size, cells_);
    shift_cells(weights_.pooling_layer(layer), size, count);
    from = cells_;
  }
  if (norm->is_rms) {
    rms_norm(stream_, {.x = from,
                       .weight = norm->has_weight ? weights.weight : ones_.data(),
                       .out = cells_,
                       .eps = norm->eps,
                       .num_tokens = count,
                       .hidden_size = size});
  } else {
    layer_norm(stream_, {.x = from,
                         .weight = weights.weight,
                         .bias = weights.bias,
                         .out = cells_,
                         .eps = norm->eps,
                         .num_tokens = count,
                         .hidden_size = size});
  }
  return cells_;
}

void VisionTower::shift_cells(const PoolingLayerWeights& weights, int64_t size, int64_t count) {
  float* x = cells_;
  for (int64_t cell = 0; cell < count; ++cell) {
    for (int64_t i = 0; i < size; ++i, ++x)
      *x = (*x + weights.input_shift[i]) * weights.input_factor[i];
  }
}

// Returns the patches of `count` cells, arranged as VisionSpec::cells says: in `from` or in cells_.
const float* VisionTower::cell_rows(const float* from, int64_t count) {
  const int64_t num_patches = spec_.patches_per_cell(), width = spec_.encoder.hidden_size;
  const int64_t size = cell_elements(spec_);
  if (spec_.cells == CellRows::kJoined) return from;
  const bool averages = spec_.cells == CellRows::kAveraged;
  if (averages) std::fill_n(cells_, count * width, 0.0f);
  const float share = 1.0f / static_cast<float>(num_patches);
  for (int64_t cell = 0; cell < count; ++cell) {
    for (int64_t patch = 0; patch < num_patches; ++patch) {
      for (int64_t channel = 0; channel < width; ++channel) {
        const float value = from[cell * size + patch * width + channel];
        if (averages) {
          cells_[cell * width + channel] += value * share;
        } else {
          cells_[cell * size + channel * num_patches + patch] = value;
        }
      }
    }
  }
  return cells_;
}

void VisionTower::project(const PictureGrid& grid, const float* hidden, size_t projector,
                          float* out) {
  const auto num_layers = static_cast<size_t>(spec_.num_projector_layers);
  const size_t first_layer = 1 + projector * num_layers;
  const int64_t width = spec_.embedding_width(),
                num_embeddings = spec_.num_embeddings(grid.num_cells());
  out += static_cast<int64_t>(projector) * width;
  for (int64_t first = 0; first < num_embeddings; first += DecoderLimits::kMaxPooledRows) {
    const int64_t count = std::min(DecoderLimits::kMaxPooledRows, num_embeddings - first);
    const float* from = projector_input(first_layer, hidden + first * cell_elements(spec_), count);
    for (size_t layer = 0; layer < num_layers; ++layer) {
      float* const to = projected_ + static_cast<int64_t>(layer % 2) *
                                         DecoderLimits::kMaxPooledRows * widest_projection(spec_);
      decoder_->head().pooling_layer(first_layer + layer, from, to, count);
      from = to;
    }
    for (int64_t i = 0; i < count; ++i) {
      const bool is_cell = first + i < grid.num_cells() && spec_.window_cells > 0;
      const int64_t place = is_cell ? grid.cells[static_cast<size_t>(first + i)] : first + i;
      std::copy_n(from + i * width, width, out + place * spec_.embedding_size());
    }
  }
}

void VisionTower::encode_picture(const PicturePixels& picture, int32_t height, float* out) {
  const PictureGrid grid =
      make_picture_grid(spec_, height / spec_.cell_size(), picture.width / spec_.cell_size());
  patch_rows_->embed(picture, grid, rows_);
  const size_t first = spec_.has_class_token() ? 1 : 0;
  for (size_t i = 0; i < grid.patches.size(); ++i) {
    axis_positions_[3 * (first + i) + 1] = grid.patches[i].y;
    axis_positions_[3 * (first + i) + 2] = grid.patches[i].x;
  }
  run_layers(grid, out);
}

// The tiles lie below each other in the item's picture.
void VisionTower::encode_tiles(const MediaItem& item, float* out) {
  const int64_t side = spec_.image_size, size = spec_.embedding_size();
  for (int64_t tile = 0; tile < item.height / side; ++tile) {
    encode_picture({.rgb = item.rgb.data() + tile * side * side * 3, .width = item.width},
                   spec_.image_size, tiles_ + tile * spec_.tile_embeddings() * size);
  }
  for (const int32_t embedding : item.order) {
    const bool is_break = embedding == MediaItem::kLineBreak;
    out = std::copy_n(is_break ? line_break_ : tiles_ + embedding * size, size, out);
  }
}

Status VisionTower::encode(const MediaItem& item, float* out) {
  QUIRE_RETURN_IF_ERROR(check_size(item));
  if (item.order.empty()) {
    encode_picture({.rgb = item.rgb.data(), .width = item.width}, item.height, out);
  } else {
    encode_tiles(item, out);
  }
  const auto size = static_cast<size_t>(item.num_embeddings * spec_.embedding_size());
  return check_encoder_output("image", {out, size});
}

}  // namespace quire
