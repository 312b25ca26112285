// The towers of Qwen2-VL, 2.5-VL, 3-VL and 3.5: pictures of any size in cells of 2 x 2 patches,
// which rotate by their row and column. The language model's tokens also have positions on the
// picture.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "models/vision/tower_reader.h"

namespace quire {
namespace {

// The names that all have in common.
constexpr NameMapEntry kSharedEntries[] = {
    {TensorRole::kPositionEmbedding, "visual.pos_embed"},
    {TensorRole::kInputNorm, "visual.blocks.{}.norm1"},
    {TensorRole::kQkv, "visual.blocks.{}.attn.qkv"},
    {TensorRole::kO, "visual.blocks.{}.attn.proj"},
    {TensorRole::kPreMlpNorm, "visual.blocks.{}.norm2"},
    {TensorRole::kSentenceDense, "dense.{}"},
    {TensorRole::kDenseInputNorm, "dense_norm.{}"},
};
constexpr NameMap kSharedNames{.entries = kSharedEntries};
constexpr NameMapEntry k2Entries[] = {
    {TensorRole::kUp, "visual.blocks.{}.mlp.fc1"},
    {TensorRole::kDown, "visual.blocks.{}.mlp.fc2"},
    {TensorRole::kFinalNorm, "visual.merger.ln_q"},
};
constexpr NameMapEntry k25Entries[] = {
    {TensorRole::kGate, "visual.blocks.{}.mlp.gate_proj"},
    {TensorRole::kUp, "visual.blocks.{}.mlp.up_proj"},
    {TensorRole::kDown, "visual.blocks.{}.mlp.down_proj"},
    {TensorRole::kFinalNorm, "visual.merger.ln_q"},
};
constexpr NameMapEntry k3Entries[] = {
    {TensorRole::kUp, "visual.blocks.{}.mlp.linear_fc1"},
    {TensorRole::kDown, "visual.blocks.{}.mlp.linear_fc2"},
    {TensorRole::kFinalNorm, "visual.merger.norm"},
};

enum class Kind : uint8_t { k2, k25, k3 };

Kind kind_of(const ConfigReader& top) {
  const std::string type = top.string("model_type", "");
  if (type == "qwen2_vl") return Kind::k2;
  return type == "qwen2_5_vl" ? Kind::k25 : Kind::k3;
}

NameMap names_of(Kind kind) {
  NameMap names{.prefixes = kTowerPrefix, .base = &kSharedNames};
  if (kind == Kind::k2) names.entries = k2Entries;
  if (kind == Kind::k25) names.entries = k25Entries;
  if (kind == Kind::k3) names.entries = k3Entries;
  return names;
}

// Half of a head's pairs rotate by the row, the others by the column.
RopeSpec axial_rope(int32_t head_dim, double theta) {
  RopeSpec rope{.rotary_dim = head_dim};
  const int32_t quarter = head_dim / 4;
  for (const uint8_t axis : {uint8_t{1}, uint8_t{2}}) {
    for (int32_t i = 0; i < quarter; ++i) {
      rope.inv_freq.push_back(1.0 / std::pow(theta, 2.0 * i / (head_dim / 2)));
      rope.pair_axes.push_back(axis);
    }
  }
  return rope;
}

// Reads a list of whole numbers below `end`.
std::vector<int32_t> read_layers(const ConfigReader& reader, std::string_view key, int64_t end,
                                 std::vector<int32_t> default_layers) {
  if (!reader.has(key)) return default_layers;
  std::vector<int32_t> layers;
  for (const double number : reader.numbers(key)) {
    if (number < 0 || number >= static_cast<double>(end) || number != std::floor(number)) {
      reader.fail(fmt::format("{}: expected layers in [0, {}), got {}", key, end, number));
      return {};
    }
    layers.push_back(static_cast<int32_t>(number));
  }
  return layers;
}

// Windows are stated in pixels, and the layers without a window are listed.
void read_windows(const ConfigReader& reader, VisionSpec& vision) {
  const size_t num_layers = vision.encoder.layers.size();
  const int64_t pixels = reader.integer("window_size", {1, 1 << 16}, 112);
  vision.window_cells = static_cast<int32_t>(pixels / vision.cell_size());
  if (vision.window_cells < 1) {
    reader.fail(
        fmt::format("window_size: expected at least {}, got {}", vision.cell_size(), pixels));
  }
  vision.layer_has_windows.assign(num_layers, true);
  const std::vector<int32_t> full = read_layers(reader, "fullatt_block_indexes",
                                                static_cast<int64_t>(num_layers), {7, 15, 23, 31});
  for (const int32_t layer : full) {
    if (static_cast<size_t>(layer) < num_layers)
      vision.layer_has_windows[static_cast<size_t>(layer)] = false;
  }
}

// Reads a table of positions that is a square grid and is interpolated to the size of pictures.
void read_table(const ConfigReader& reader, VisionSpec& vision) {
  const int64_t count = reader.integer("num_position_embeddings", {1, 1 << 20}, 2304);
  const auto side = std::llround(std::sqrt(static_cast<double>(count)));
  if (side * side != count)
    reader.fail(fmt::format("num_position_embeddings: expected a square, got {}", count));
  vision.encoder.num_positions = count;
  vision.positions = PatchPositions::kResampled;
}

struct TowerSizes {
  int64_t width = 0;
  int64_t ffn = 0;
  int64_t out = 0;
};

TowerSizes read_sizes(const ConfigReader& reader, Kind kind) {
  if (kind == Kind::k2) {
    const int64_t width = reader.integer("embed_dim", kTowerWidth, 1280);
    return {.width = width,
            .ffn = width * reader.integer("mlp_ratio", {1, 64}, 4),
            .out = reader.integer("hidden_size", kTowerWidth, 3584)};
  }
  const bool is_3 = kind == Kind::k3;
  return {.width = reader.integer("hidden_size", kTowerWidth, is_3 ? 1152 : 3584),
          .ffn = reader.integer("intermediate_size", kTowerWidth, is_3 ? 4304 : 3420),
          .out = reader.integer("out_hidden_size", kTowerWidth, 3584)};
}

void read_encoder(const ConfigReader& reader, Kind kind, const TowerSizes& sizes,
                  VisionSpec& vision) {
  DecoderSpec& encoder = vision.encoder;
  encoder.hidden_size = sizes.width;
  AttentionSpec attention =
      tower_attention(reader, sizes.width, reader.integer("num_heads", {1, 1024}, 16));
  check_axial_heads(reader, "num_heads", attention.head_dim);
  attention.rope_style = RopeStyle::kNeox;
  const std::string_view activation = kind == Kind::k2    ? "quick_gelu"
                                      : kind == Kind::k25 ? "silu"
                                                          : "gelu_pytorch_tanh";
  const FfnSpec mlp{.intermediate_size = sizes.ffn,
                    .activation = read_tower_activation(reader, "hidden_act", activation),
                    .gated = kind == Kind::k25,
                    .bias = true};
  const auto depth =
      static_cast<size_t>(reader.integer("depth", {1, 256}, kind == Kind::k3 ? 27 : 32));
  encoder.layers.assign(depth, {.attention = attention, .ffn = mlp});
  encoder.ropes = {axial_rope(attention.head_dim, 10000.0)};
  encoder.block.norm = kind == Kind::k25 ? NormKind::kRms : NormKind::kLayer;
  encoder.block.norm_bias = kind != Kind::k25;
  encoder.norm_eps = 1e-6f;
  encoder.has_head = false;
}

// Adds two linear layers over the patches of a cell; those of taps follow a norm of all patches.
void add_projector(Kind kind, const TowerSizes& sizes, size_t projector, VisionSpec& vision) {
  std::vector<PoolingLayerSpec>& layers = vision.encoder.pooling.layers;
  const int64_t cell = sizes.width * vision.patches_per_cell();
  const auto index = static_cast<int32_t>(layers.size());
  layers.push_back(tower_dense(index, cell, cell, true, Activation::kGeluErf));
  layers.push_back(tower_dense(index + 1, cell, sizes.out, true));
  const bool is_tap = projector > 0;
  if (is_tap) layers[static_cast<size_t>(index)].input_norm = {.eps = vision.encoder.norm_eps};
  const std::string name =
      is_tap ? fmt::format("visual.deepstack_merger_list.{}", projector - 1) : "visual.merger";
  const bool is_3 = kind == Kind::k3;
  vision.dense_names.push_back(name + (is_3 ? ".linear_fc1" : ".mlp.0"));
  vision.dense_names.push_back(name + (is_3 ? ".linear_fc2" : ".mlp.2"));
  vision.dense_norm_names.push_back(is_tap ? name + ".norm" : "");
  vision.dense_norm_names.emplace_back();
}

}  // namespace

void read_qwen_vl(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision) {
  const Kind kind = kind_of(top);
  const std::optional<ConfigReader> tower = top.child("vision_config");
  if (!tower) return top.fail("vision_config: expected an object");
  const ConfigReader& reader = *tower;
  check_channels(reader, "in_channels");
  vision.fit = PictureFit::kNearest;
  vision.patch_size =
      static_cast<int32_t>(reader.integer("patch_size", {1, 256}, kind == Kind::k3 ? 16 : 14));
  vision.merge_size = static_cast<int32_t>(reader.integer("spatial_merge_size", {1, 8}, 2));
  vision.num_frames = static_cast<int32_t>(reader.integer("temporal_patch_size", {1, 16}, 2));
  const TowerSizes sizes = read_sizes(reader, kind);
  if (sizes.out != hidden_size) {
    reader.fail(fmt::format("{}: expected that of the language model, {}, got {}",
                            kind == Kind::k2 ? "hidden_size" : "out_hidden_size", hidden_size,
                            sizes.out));
  }
  read_encoder(reader, kind, sizes, vision);
  if (kind == Kind::k25) read_windows(reader, vision);
  if (kind == Kind::k3) read_table(reader, vision);
  const bool has_taps = top.string("model_type", "").starts_with("qwen3_vl");
  if (has_taps) {
    vision.tap_layers = read_layers(reader, "deepstack_visual_indexes",
                                    std::ssize(vision.encoder.layers), {8, 16, 24});
  }
  vision.encoder.pooling.layers = {
      tower_dense(0, vision.patch_elements(), sizes.width, kind == Kind::k3)};
  vision.dense_names = {"visual.patch_embed.proj"};
  vision.dense_norm_names = {""};
  for (size_t i = 0; i <= vision.tap_layers.size(); ++i) add_projector(kind, sizes, i, vision);
  vision.tensor_prefixes = {"visual."};
  vision.names = names_of(kind);
  vision.has_grid_positions = true;
  const int64_t default_token =
      top.string("model_type", "").starts_with("qwen3_5") ? 248056 : 151655;
  vision.placeholder = read_placeholder(top, default_token);
}

}  // namespace quire
