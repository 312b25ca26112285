// Llama 3.2 Vision's tower: a canvas of tiles of one size, whose patches attend to each other
// across tiles; LayerNorms before attention and MLP. A second encoder with gated layers reads the
// output of the first. The outputs of both, side by side, become the rows of the language model's
// cross-attention.
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "models/vision/tower_reader.h"

namespace quire {
namespace {

constexpr NameMapEntry bare(TensorRole role, std::string_view pattern) {
  return {.role = role, .pattern = pattern, .bare = true};
}

constexpr NameMapEntry kLocalEntries[] = {
    bare(TensorRole::kTokenEmbedding, "vision_tower.class_embedding"),
    {TensorRole::kInputNorm, "vision_tower.transformer.layers.{}.input_layernorm"},
    {TensorRole::kQ, "vision_tower.transformer.layers.{}.self_attn.q_proj"},
    {TensorRole::kK, "vision_tower.transformer.layers.{}.self_attn.k_proj"},
    {TensorRole::kV, "vision_tower.transformer.layers.{}.self_attn.v_proj"},
    {TensorRole::kO, "vision_tower.transformer.layers.{}.self_attn.o_proj"},
    {TensorRole::kPreMlpNorm, "vision_tower.transformer.layers.{}.post_attention_layernorm"},
    {TensorRole::kUp, "vision_tower.transformer.layers.{}.mlp.fc1"},
    {TensorRole::kDown, "vision_tower.transformer.layers.{}.mlp.fc2"},
    {TensorRole::kFinalNorm, "vision_tower.layernorm_post"},
    {TensorRole::kSentenceDense, "dense.{}"},
};
constexpr NameMapEntry kGlobalEntries[] = {
    {TensorRole::kInputNorm, "vision_tower.global_transformer.layers.{}.input_layernorm"},
    {TensorRole::kQ, "vision_tower.global_transformer.layers.{}.self_attn.q_proj"},
    {TensorRole::kK, "vision_tower.global_transformer.layers.{}.self_attn.k_proj"},
    {TensorRole::kV, "vision_tower.global_transformer.layers.{}.self_attn.v_proj"},
    {TensorRole::kO, "vision_tower.global_transformer.layers.{}.self_attn.o_proj"},
    {TensorRole::kPreMlpNorm, "vision_tower.global_transformer.layers.{}.post_attention_layernorm"},
    {TensorRole::kUp, "vision_tower.global_transformer.layers.{}.mlp.fc1"},
    {TensorRole::kDown, "vision_tower.global_transformer.layers.{}.mlp.fc2"},
    bare(TensorRole::kPostAttentionNorm, "vision_tower.global_transformer.layers.{}.gate_attn"),
    bare(TensorRole::kPostMlpNorm, "vision_tower.global_transformer.layers.{}.gate_ffn"),
};
constexpr NameMapEntry kFrontEntries[] = {
    bare(TensorRole::kPositionEmbedding, "vision_tower.gated_positional_embedding.embedding"),
    bare(TensorRole::kTilePositionGate, "vision_tower.gated_positional_embedding.gate"),
    {TensorRole::kTilePositions, "vision_tower.gated_positional_embedding.tile_embedding"},
    {TensorRole::kTileBefore, "vision_tower.pre_tile_positional_embedding.embedding"},
    bare(TensorRole::kTileBeforeGate, "vision_tower.pre_tile_positional_embedding.gate"),
    {TensorRole::kTileBehind, "vision_tower.post_tile_positional_embedding.embedding"},
    bare(TensorRole::kTileBehindGate, "vision_tower.post_tile_positional_embedding.gate"),
    {TensorRole::kEmbeddingNorm, "vision_tower.layernorm_pre"},
};
// Each of the two encoders and the front reads its own part of the tower and ignores the others.
constexpr std::string_view kNotFront[] = {"transformer.layers.", "layernorm_post", "dense.",
                                          "class_embedding"};
constexpr std::string_view kNotLocal[] = {"global_transformer.", "_embedding.", "layernorm_pre"};
constexpr std::string_view kNotGlobal[] = {"vision_tower.transformer.", "_embedding.", "layernorm_",
                                           "dense.", "class_embedding"};

void read_encoders(const ConfigReader& reader, VisionSpec& vision) {
  DecoderSpec& local = vision.encoder;
  local.hidden_size = reader.integer("hidden_size", kTowerWidth, 1280);
  const int64_t heads = reader.integer(
      reader.has("attention_heads") ? "attention_heads" : "num_attention_heads", {1, 1024}, 16);
  AttentionSpec attention = tower_attention(reader, local.hidden_size, heads);
  attention.qkv_bias = attention.o_bias = false;
  const FfnSpec mlp{.intermediate_size = reader.integer("intermediate_size", kTowerWidth, 5120),
                    .activation = read_tower_activation(reader, "hidden_act", "gelu"),
                    .gated = false,
                    .bias = true};
  const auto num_layers = static_cast<size_t>(reader.integer("num_hidden_layers", {1, 256}, 32));
  const auto num_global = static_cast<size_t>(reader.integer("num_global_layers", {1, 256}, 8));
  local.norm_eps = static_cast<float>(reader.positive("norm_eps", 1e-5));
  // The norms before and after the first encoder have a fixed epsilon.
  if (local.norm_eps != 1e-5f) {
    reader.fail(fmt::format("norm_eps: expected 1e-05, as before and behind the layers, got {}",
                            local.norm_eps));
  }
  local.layers.assign(num_layers, {.attention = attention, .ffn = mlp});
  local.block = {.norm = NormKind::kLayer, .norm_bias = true};
  local.has_head = false;
  DecoderSpec& global = vision.canvas.global;
  global = local;
  global.layers.assign(num_global, {.attention = attention, .ffn = mlp});
  global.block.output_gates = true;
  global.block.final_norm = false;
  const std::vector<double> taps = reader.numbers("intermediate_layers_indices");
  for (const double layer :
       reader.has("intermediate_layers_indices") ? taps : std::vector<double>{3, 7, 15, 23, 30}) {
    if (!(layer >= 0.0 && layer < static_cast<double>(num_layers)) || layer != std::floor(layer)) {
      reader.fail(fmt::format("intermediate_layers_indices: expected layers in [0, {}), got {}",
                              num_layers, layer));
      return;
    }
    vision.canvas.layers.push_back(static_cast<int32_t>(layer));
  }
}

// Returns all grids of at most max_tiles tiles, the narrowest first.
std::vector<TileGrid> all_canvases(int32_t max_tiles) {
  std::vector<TileGrid> canvases;
  for (int32_t rows = 1; rows <= max_tiles; ++rows) {
    for (int32_t columns = 1; rows * columns <= max_tiles; ++columns)
      canvases.push_back({rows, columns});
  }
  return canvases;
}

void read_canvases(const ConfigReader& reader, VisionSpec& vision) {
  vision.image_size = static_cast<int32_t>(reader.integer("image_size", kTowerSide, 448));
  vision.patch_size = static_cast<int32_t>(reader.integer("patch_size", kTowerSide, 14));
  vision.canvas.max_tiles = static_cast<int32_t>(reader.integer("max_num_tiles", {1, 16}, 4));
  vision.grids = all_canvases(vision.canvas.max_tiles);
  const auto listed = reader.number_pairs("supported_aspect_ratios");
  bool is_known = listed.empty() || listed.size() == vision.grids.size();
  for (size_t i = 0; is_known && i < listed.size(); ++i) {
    is_known =
        listed[i].first == vision.grids[i].rows && listed[i].second == vision.grids[i].columns;
  }
  if (!is_known) {
    reader.fail(fmt::format(
        "supported_aspect_ratios: expected all of at most {} tiles in order, got {} others",
        vision.canvas.max_tiles, listed.size()));
  }
  if (vision.image_size % vision.patch_size != 0) {
    reader.fail(fmt::format("image_size: expected a multiple of patch_size {}, got {}",
                            vision.patch_size, vision.image_size));
  }
}

}  // namespace

void read_mllama(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision) {
  const std::optional<ConfigReader> reader = read_tower_config(top, {{"mllama_vision_model"}});
  if (!reader) return;
  check_channels(*reader, "num_channels");
  read_canvases(*reader, vision);
  read_encoders(*reader, vision);
  const int64_t width = vision.encoder.hidden_size;
  const int64_t output = width * (1 + std::ssize(vision.canvas.layers));
  const int64_t stated = reader->integer("vision_output_dim", kTowerWidth, output);
  if (stated != output) {
    reader->fail(fmt::format("vision_output_dim: expected {}, of what the projector reads, got {}",
                             output, stated));
  }
  vision.fit = PictureFit::kBestCanvas;
  vision.encoder.vocab_size = 1;  // the class token
  vision.encoder.pooling.layers = {tower_dense(0, vision.patch_elements(), width, false),
                                   tower_dense(1, output, hidden_size, true)};
  vision.num_projector_layers = 1;
  vision.mean = vision.std = {0.5f, 0.5f, 0.5f};
  vision.tensor_prefixes = {"vision_model.", "multi_modal_projector"};
  vision.dense_names = {"vision_tower.patch_embedding", "multi_modal_projector"};
  vision.dense_norm_names = {"", ""};
  vision.names = {.entries = kLocalEntries, .prefixes = kTowerPrefix, .ignored = kNotLocal};
  vision.canvas.global_names = {
      .entries = kGlobalEntries, .prefixes = kTowerPrefix, .ignored = kNotGlobal};
  vision.canvas.front_names = {
      .entries = kFrontEntries, .prefixes = kTowerPrefix, .ignored = kNotFront};
  vision.placeholder = read_placeholder(top, 128256);
}

}  // namespace quire
