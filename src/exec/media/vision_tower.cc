#include "exec/media/vision_tower.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/api/embedding.h"
#include "models/vision/vision_config.h"

namespace quire {
namespace {

constexpr int64_t kRowsAtOnce = DecoderLimits::kMaxPooledRows;
constexpr int32_t kBlockSize = 16;

int64_t num_blocks(const VisionSpec& spec) {
  return (spec.num_rows() + kBlockSize - 1) / kBlockSize;
}

// Of keys, and as many of values.
int64_t cache_floats(const VisionSpec& spec) {
  return num_blocks(spec) * kBlockSize * spec.encoder.layers.front().attention.kv_rows();
}

int64_t widest_projection(const VisionSpec& spec) {
  int64_t widest = 0;
  for (const PoolingLayerSpec& layer : spec.encoder.pooling.layers)
    widest = std::max(widest, layer.num_outputs);
  return widest;
}

}  // namespace

VisionTower::VisionTower(const VisionSpec& spec, const WeightOptions& options, HostStream& stream)
    : spec_(spec),
      stream_(stream),
      weights_(spec_.encoder, options),
      source_(std::vector<RawTensor>()) {
  limits_ = {.max_tokens = spec_.num_rows(),
             .max_reqs = 1,
             .max_seq_len = spec_.num_rows(),
             .max_logit_rows = 1};
}

Result<std::unique_ptr<VisionTower>> VisionTower::open(const VisionSpec& spec,
                                                       const WeightOptions& options,
                                                       const TensorSource& source,
                                                       WeightPacking& packing, HostStream& stream) {
  std::unique_ptr<VisionTower> tower(new VisionTower(spec, options, stream));
  tower->source_ = vision_tensors(source);
  QUIRE_ASSIGN_OR_RETURN(tower->plan_, resolve_checkpoint(tower->weights_.slots(), spec.names, {},
                                                          tower->source_, packing));
  return tower;
}

int64_t VisionTower::workspace_bytes() const {
  const int64_t width = spec_.encoder.hidden_size;
  const auto floats = [](int64_t count) { return Arena::padded(count * int64_t{sizeof(float)}); };
  return decoder_memory(spec_.encoder, weights_, limits_, stream_).total() +
         floats(kRowsAtOnce * spec_.patch_elements()) + 2 * floats(spec_.num_rows() * width) +
         floats(2 * kRowsAtOnce * widest_projection(spec_)) + 2 * floats(cache_floats(spec_));
}

Status VisionTower::load(const LoadOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(weight_arena_, Arena::create(plan_.arena_bytes()));
  QUIRE_RETURN_IF_ERROR(load_checkpoint(plan_, weight_arena_, options));
  QUIRE_ASSIGN_OR_RETURN(workspace_, Arena::create(workspace_bytes()));
  place_buffers();
  read_positions();
  return {};
}

void VisionTower::place_buffers() {
  const int64_t width = spec_.encoder.hidden_size;
  decoder_ = std::make_unique<Decoder>(spec_.encoder, weights_, limits_, stream_, workspace_);
  patches_ = workspace_.allocate<float>(kRowsAtOnce * spec_.patch_elements());
  rows_ = workspace_.allocate<float>(spec_.num_rows() * width);
  positions_ = workspace_.allocate<float>(spec_.num_rows() * width);
  projected_ = workspace_.allocate<float>(2 * kRowsAtOnce * widest_projection(spec_));
  decoder_->bind_cache(one_cache());
  ids_.resize(static_cast<size_t>(spec_.num_rows()));
  std::iota(ids_.begin(), ids_.end(), 0);
  slots_.resize(ids_.size());
  std::iota(slots_.begin(), slots_.end(), 0);
  block_table_.resize(static_cast<size_t>(num_blocks(spec_)));
  std::iota(block_table_.begin(), block_table_.end(), 0);
}

// Keys and values of a layer are read before those of the next one are written: all have one place.
std::vector<LayerCache> VisionTower::one_cache() {
  const AttentionSpec& attention = spec_.encoder.layers.front().attention;
  const KvCacheView view{.key = workspace_.allocate<float>(cache_floats(spec_)),
                         .value = workspace_.allocate<float>(cache_floats(spec_)),
                         .dtype = DType::kF32,
                         .block_stride = attention.kv_rows() * kBlockSize,
                         .block_size = kBlockSize,
                         .num_kv_heads = attention.num_kv_heads,
                         .head_dim = attention.head_dim};
  return std::vector<LayerCache>(spec_.encoder.layers.size(), LayerCache{.view = view});
}

// The table of positions as float32, with the class token's embedding added to its row.
void VisionTower::read_positions() {
  const int64_t width = spec_.encoder.hidden_size;
  const TableWeight& table = weights_.position_embedding();
  embedding(stream_, {.token_ids = ids_.data(),
                      .table = table.data,
                      .table_dtype = table.dtype,
                      .out = positions_,
                      .num_tokens = spec_.num_rows(),
                      .hidden_size = width});
  if (!spec_.has_class_token()) return;
  const TableWeight& class_token = weights_.token_embedding();
  embedding(stream_, {.token_ids = ids_.data(),
                      .table = class_token.data,
                      .table_dtype = class_token.dtype,
                      .out = rows_,
                      .num_tokens = 1,
                      .hidden_size = width});
  for (int64_t i = 0; i < width; ++i) positions_[i] += rows_[i];
}

// Patches [first, first + count), each [3, patch, patch], normalized.
void VisionTower::cut_patches(const MediaItem& item, int64_t first, int64_t count) {
  const int64_t size = spec_.patch_size;
  const int64_t per_row = spec_.image_size / size;
  float* to = patches_;
  for (int64_t patch = first; patch < first + count; ++patch) {
    const int64_t top = patch / per_row * size, left = patch % per_row * size;
    for (size_t channel = 0; channel < 3; ++channel) {
      const float mean = spec_.mean[channel] * 255.0f, std = spec_.std[channel] * 255.0f;
      for (int64_t y = top; y < top + size; ++y) {
        const int64_t row = (y * spec_.image_size + left) * 3 + static_cast<int64_t>(channel);
        for (int64_t x = 0; x < size; ++x) {
          const auto value = static_cast<float>(item.rgb[static_cast<size_t>(row + x * 3)]);
          *to++ = (value - mean) / std;
        }
      }
    }
  }
}

void VisionTower::embed_patches(const MediaItem& item) {
  const int64_t width = spec_.encoder.hidden_size;
  const int64_t first_row = spec_.has_class_token() ? 1 : 0;
  std::fill_n(rows_, first_row * width, 0.0f);
  for (int64_t first = 0; first < spec_.num_patches(); first += kRowsAtOnce) {
    const int64_t count = std::min<int64_t>(kRowsAtOnce, spec_.num_patches() - first);
    cut_patches(item, first, count);
    decoder_->pooling_layer(0, patches_, rows_ + (first_row + first) * width, count);
  }
  for (int64_t i = 0; i < spec_.num_rows() * width; ++i) rows_[i] += positions_[i];
}

void VisionTower::project(const float* hidden, float* out) {
  const std::vector<PoolingLayerSpec>& layers = spec_.encoder.pooling.layers;
  const int64_t width = spec_.encoder.hidden_size;
  for (int64_t first = 0; first < spec_.num_embeddings(); first += kRowsAtOnce) {
    const int64_t count = std::min<int64_t>(kRowsAtOnce, spec_.num_embeddings() - first);
    const float* from = hidden + first * width;
    for (size_t layer = 1; layer < layers.size(); ++layer) {
      const bool is_last = layer + 1 == layers.size();
      float* to = is_last ? out + first * embedding_size()
                          : projected_ + static_cast<int64_t>(layer % 2) * kRowsAtOnce *
                                             widest_projection(spec_);
      decoder_->pooling_layer(layer, from, to, count);
      from = to;
    }
  }
}

Status VisionTower::encode(const MediaItem& item, float* out) {
  const int32_t side = spec_.image_size;
  if (item.width != side || item.height != side ||
      std::ssize(item.rgb) != int64_t{3} * side * side ||
      item.num_embeddings != spec_.num_embeddings()) {
    return invalid_argument("image: expected {} x {} pixels and {} embeddings, got {} x {} and {}",
                            side, side, spec_.num_embeddings(), item.width, item.height,
                            item.num_embeddings);
  }
  embed_patches(item);
  const GivenRows given{.first = 0, .count = spec_.num_rows(), .rows = rows_};
  const KvGroupInputs group{.slot_mapping = slots_.data(),
                            .block_table = block_table_.data(),
                            .max_blocks = std::ssize(block_table_)};
  const int32_t bounds[2] = {0, spec_.num_rows()};
  const int32_t length = spec_.num_rows();
  decoder_->forward({.num_tokens = spec_.num_rows(),
                     .num_reqs = 1,
                     .input_ids = ids_.data(),
                     .positions = ids_.data(),
                     .query_start_loc = bounds,
                     .seq_lens = &length,
                     .max_query_len = length,
                     .groups = {&group, 1},
                     .given_rows = {&given, 1}});
  const int64_t skipped = spec_.num_rows() - spec_.num_embeddings();
  project(decoder_->final_hidden(spec_.num_rows()) + skipped * spec_.encoder.hidden_size, out);
  for (int64_t i = 0; i < spec_.num_embeddings() * embedding_size(); ++i) {
    if (!std::isfinite(out[i]))
      return invalid_argument("image: the model makes values of it that are no numbers");
  }
  return {};
}

}  // namespace quire
