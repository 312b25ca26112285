// Pixtral's tower: pictures of any size, whose patches rotate by their row and column. The
// projector is that of Mistral 3, which computes one embedding per cell, or that of LLaVA.
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "models/vision/tower_reader.h"

namespace quire {
namespace {

constexpr NameMapEntry kPixtralTowerEntries[] = {
    {TensorRole::kEmbeddingNorm, "vision_tower.ln_pre"},
    {TensorRole::kInputNorm, "vision_tower.transformer.layers.{}.attention_norm"},
    {TensorRole::kQ, "vision_tower.transformer.layers.{}.attention.q_proj"},
    {TensorRole::kK, "vision_tower.transformer.layers.{}.attention.k_proj"},
    {TensorRole::kV, "vision_tower.transformer.layers.{}.attention.v_proj"},
    {TensorRole::kO, "vision_tower.transformer.layers.{}.attention.o_proj"},
    {TensorRole::kPreMlpNorm, "vision_tower.transformer.layers.{}.ffn_norm"},
    {TensorRole::kGate, "vision_tower.transformer.layers.{}.feed_forward.gate_proj"},
    {TensorRole::kUp, "vision_tower.transformer.layers.{}.feed_forward.up_proj"},
    {TensorRole::kDown, "vision_tower.transformer.layers.{}.feed_forward.down_proj"},
    {TensorRole::kFinalNorm, "multi_modal_projector.norm"},
    {TensorRole::kSentenceDense, "dense.{}"},
};

// Even frequencies rotate by the row, odd ones by the column.
RopeSpec axial_rope(int32_t head_dim, double theta) {
  RopeSpec rope{.rotary_dim = head_dim};
  for (const uint8_t axis : {uint8_t{1}, uint8_t{2}}) {
    for (int32_t i = axis - 1; i < head_dim / 2; i += 2) {
      rope.inv_freq.push_back(1.0 / std::pow(theta, 2.0 * i / head_dim));
      rope.pair_axes.push_back(axis);
    }
  }
  return rope;
}

double rope_theta(const ConfigReader& reader) {
  const std::optional<ConfigReader> rope = reader.child("rope_parameters");
  const double flat = reader.positive("rope_theta", 10000.0);
  return rope ? rope->positive("rope_theta", flat) : flat;
}

}  // namespace

void read_pixtral(const ConfigReader& reader, VisionSpec& vision) {
  DecoderSpec& encoder = vision.encoder;
  encoder.hidden_size = reader.integer("hidden_size", kTowerWidth, 1024);
  const int64_t heads = reader.integer("num_attention_heads", {1, 1024}, 16);
  const int64_t ffn = reader.integer("intermediate_size", kTowerWidth, 4096);
  const auto num_layers = static_cast<size_t>(reader.integer("num_hidden_layers", {1, 256}, 24));
  vision.patch_size = static_cast<int32_t>(reader.integer("patch_size", {1, 256}, 16));
  AttentionSpec attention = tower_attention(reader, encoder.hidden_size, heads);
  check_axial_heads(reader, "num_attention_heads", attention.head_dim);
  if (!reader.status().ok()) return;
  attention.rope_style = RopeStyle::kNeox;
  attention.qkv_bias = attention.o_bias = false;
  encoder.ropes = {axial_rope(attention.head_dim, rope_theta(reader))};
  const FfnSpec mlp{.intermediate_size = ffn,
                    .activation = read_tower_activation(reader, "hidden_act", "gelu"),
                    .gated = true};
  encoder.layers.assign(num_layers, {.attention = attention, .ffn = mlp});
  encoder.block = {.norm = NormKind::kRms, .embedding_norm = true, .final_norm = false};
  encoder.norm_eps = 1e-5f;
  encoder.has_head = false;
  vision.tensor_prefixes = {"vision_tower.", "multi_modal_projector."};
  vision.names = {kPixtralTowerEntries, kTowerPrefix};
  vision.fit = PictureFit::kRoundedUp;
  vision.text = {.marker = "[IMG]",
                 .tile = "[IMG]",
                 .between = "[IMG_BREAK]",
                 .after = "[IMG_END]",
                 .has_rows = true};
}

void read_mistral3(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision) {
  const std::optional<ConfigReader> tower = read_tower_config(top, {{"pixtral"}});
  if (!tower) return;
  read_pixtral(*tower, vision);
  check_last_layer(top);
  vision.merge_size = static_cast<int32_t>(top.integer("spatial_merge_size", {1, 8}, 2));
  const Activation activation = read_tower_activation(top, "projector_hidden_act", "gelu");
  const bool has_bias = top.boolean("multimodal_projector_bias", false);
  const double eps =
      top.child("text_config") ? top.child("text_config")->positive("rms_norm_eps", 1e-5) : 1e-5;
  if (static_cast<float>(eps) != vision.encoder.norm_eps)
    top.fail(
        fmt::format("text_config: rms_norm_eps: expected 1e-05, as in the tower, got {}", eps));
  const int64_t width = vision.encoder.hidden_size;
  vision.encoder.block.final_norm = true;
  vision.cells = CellRows::kByChannel;
  vision.num_projector_layers = 3;
  vision.encoder.pooling.layers = {tower_dense(0, vision.patch_elements(), width, false),
                                   tower_dense(1, width * vision.patches_per_cell(), width, false),
                                   tower_dense(2, width, hidden_size, has_bias, activation),
                                   tower_dense(3, hidden_size, hidden_size, has_bias)};
  vision.dense_names = {"vision_tower.patch_conv",
                        "multi_modal_projector.patch_merger.merging_layer",
                        "multi_modal_projector.linear_1", "multi_modal_projector.linear_2"};
  vision.placeholder = read_placeholder(top, 10);
}

}  // namespace quire
