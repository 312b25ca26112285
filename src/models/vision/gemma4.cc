// Gemma 4's tower: pictures keep their shape and are as large as a number of cells allows.
// Positions come from a table per axis, and half of each head rotates by the column, the other half
// by the row. There are norms before and after attention and MLP. The patches of a cell are
// averaged, in larger models shifted and scaled column by column, and a norm without weights and
// one layer compute an embedding from the mean. In some models, the tokens of a picture attend to
// each other in layers with a window only.
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "models/vision/tower_reader.h"

namespace quire {
namespace {

constexpr NameMapEntry bare(TensorRole role, std::string_view pattern) {
  return {.role = role, .pattern = pattern, .bare = true};
}

constexpr NameMapEntry kGemma4TowerEntries[] = {
    bare(TensorRole::kPositionEmbedding, "vision_tower.patch_embedder.position_embedding_table"),
    {TensorRole::kInputNorm, "vision_tower.encoder.layers.{}.input_layernorm"},
    {TensorRole::kQ, "vision_tower.encoder.layers.{}.self_attn.q_proj.linear"},
    {TensorRole::kK, "vision_tower.encoder.layers.{}.self_attn.k_proj.linear"},
    {TensorRole::kV, "vision_tower.encoder.layers.{}.self_attn.v_proj.linear"},
    {TensorRole::kO, "vision_tower.encoder.layers.{}.self_attn.o_proj.linear"},
    bare(TensorRole::kQBounds, "vision_tower.encoder.layers.{}.self_attn.q_proj.bounds"),
    bare(TensorRole::kKBounds, "vision_tower.encoder.layers.{}.self_attn.k_proj.bounds"),
    bare(TensorRole::kVBounds, "vision_tower.encoder.layers.{}.self_attn.v_proj.bounds"),
    bare(TensorRole::kOBounds, "vision_tower.encoder.layers.{}.self_attn.o_proj.bounds"),
    {TensorRole::kQNorm, "vision_tower.encoder.layers.{}.self_attn.q_norm"},
    {TensorRole::kKNorm, "vision_tower.encoder.layers.{}.self_attn.k_norm"},
    {TensorRole::kPostAttentionNorm, "vision_tower.encoder.layers.{}.post_attention_layernorm"},
    {TensorRole::kPreMlpNorm, "vision_tower.encoder.layers.{}.pre_feedforward_layernorm"},
    {TensorRole::kGate, "vision_tower.encoder.layers.{}.mlp.gate_proj.linear"},
    {TensorRole::kUp, "vision_tower.encoder.layers.{}.mlp.up_proj.linear"},
    {TensorRole::kDown, "vision_tower.encoder.layers.{}.mlp.down_proj.linear"},
    bare(TensorRole::kGateBounds, "vision_tower.encoder.layers.{}.mlp.gate_proj.bounds"),
    bare(TensorRole::kUpBounds, "vision_tower.encoder.layers.{}.mlp.up_proj.bounds"),
    bare(TensorRole::kDownBounds, "vision_tower.encoder.layers.{}.mlp.down_proj.bounds"),
    {TensorRole::kPostMlpNorm, "vision_tower.encoder.layers.{}.post_feedforward_layernorm"},
    bare(TensorRole::kDenseInputShift, "vision_tower.std_bias"),
    bare(TensorRole::kDenseInputFactor, "vision_tower.std_scale"),
    {TensorRole::kSentenceDense, "dense.{}"},
};
// Files may have bounds that are not used.
constexpr std::string_view kIgnored[] = {".bounds"};

// The first half of a head's pairs rotates by the column, the second by the row.
RopeSpec halves_rope(int32_t head_dim, double theta) {
  RopeSpec rope{.rotary_dim = head_dim};
  for (const uint8_t axis : {uint8_t{2}, uint8_t{1}}) {
    for (int32_t i = 0; i < head_dim / 2; i += 2) {
      rope.inv_freq.push_back(1.0 / std::pow(theta, 2.0 * i / head_dim));
      rope.pair_axes.push_back(axis);
    }
  }
  return rope;
}

double rope_theta(const ConfigReader& reader) {
  const std::optional<ConfigReader> rope = reader.child("rope_parameters");
  if (!rope) return 100.0;
  const std::string type = rope->string("rope_type", "axial");
  if (type != "axial" && type != "default")
    rope->fail(fmt::format("rope_type: expected axial, got {}", type));
  return rope->positive("rope_theta", 100.0);
}

AttentionSpec read_attention(const ConfigReader& reader, float norm_eps) {
  const int64_t heads = reader.integer("num_attention_heads", {1, 1024}, 12);
  const int64_t kv_heads = reader.integer("num_key_value_heads", {1, 1024}, heads);
  const int64_t head_dim = reader.integer("head_dim", {4, kMaxAttentionHeadDim}, 64);
  check_axial_heads(reader, "head_dim", head_dim);
  if (heads % kv_heads != 0) {
    reader.fail(
        fmt::format("num_key_value_heads: expected a divisor of num_attention_heads {}, got {}",
                    heads, kv_heads));
  }
  if (reader.boolean("attention_bias", false))
    reader.fail("attention_bias: expected false, got true");
  return {.num_heads = static_cast<int32_t>(heads),
          .num_kv_heads = static_cast<int32_t>(kv_heads),
          .head_dim = static_cast<int32_t>(head_dim),
          .causal = false,
          .rope_style = RopeStyle::kNeoxHalves,
          .qk_norm = QkNorm::kHead,
          .qk_norm_eps = norm_eps,
          .value_norm = true};
}

void read_encoder(const ConfigReader& reader, DecoderSpec& encoder) {
  encoder.hidden_size = reader.integer("hidden_size", kTowerWidth, 768);
  encoder.norm_eps = static_cast<float>(reader.positive("rms_norm_eps", 1e-6));
  const AttentionSpec attention = read_attention(reader, encoder.norm_eps);
  const FfnSpec mlp{
      .intermediate_size = reader.integer("intermediate_size", kTowerWidth, 3072),
      .activation = read_tower_activation(reader, "hidden_activation", "gelu_pytorch_tanh"),
      .gated = true};
  const auto num_layers = static_cast<size_t>(reader.integer("num_hidden_layers", {1, 256}, 16));
  encoder.layers.assign(num_layers, {.attention = attention, .ffn = mlp});
  encoder.ropes = {halves_rope(attention.head_dim, rope_theta(reader))};
  encoder.block = {.norm = NormKind::kRms, .output_norms = true, .final_norm = false};
  encoder.num_positions = 2 * reader.integer("position_embedding_size", {1, 1 << 20}, 10 * 1024);
  encoder.clamps_products = reader.boolean("use_clipped_linears", false);
  encoder.has_head = false;
}

}  // namespace

void read_gemma4(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision) {
  const std::optional<ConfigReader> reader = read_tower_config(top, {{"gemma4_vision"}});
  if (!reader) return;
  read_encoder(*reader, vision.encoder);
  vision.patch_size = static_cast<int32_t>(reader->integer("patch_size", {1, 256}, 16));
  vision.merge_size = static_cast<int32_t>(reader->integer("pooling_kernel_size", {1, 16}, 3));
  vision.fit = PictureFit::kMostCells;
  vision.positions = PatchPositions::kPerAxis;
  vision.channels_last = true;
  vision.mean = {0.0f, 0.0f, 0.0f};
  vision.std = {1.0f, 1.0f, 1.0f};
  vision.centers_channels = true;
  vision.cells = CellRows::kAveraged;
  vision.num_projector_layers = 1;
  const int64_t width = vision.encoder.hidden_size;
  PoolingLayerSpec projector = tower_dense(1, width, hidden_size, false);
  // Means are multiplied by the square root of their width. After a norm, that only affects its
  // epsilon, and the shift that is added to the means.
  const auto scale = std::sqrt(static_cast<float>(width));
  projector.input_norm = {.is_rms = true,
                          .has_weight = false,
                          .shifts_input = reader->boolean("standardize", false),
                          .shift_scale = -1.0f / scale,
                          .eps = vision.encoder.norm_eps / static_cast<float>(width)};
  vision.encoder.pooling.layers = {tower_dense(0, vision.patch_elements(), width, false),
                                   projector};
  vision.tensor_prefixes = {"vision_tower.", "embed_vision."};
  vision.dense_names = {"vision_tower.patch_embedder.input_proj",
                        "embed_vision.embedding_projection"};
  vision.dense_norm_names = {"", ""};
  vision.names = {.entries = kGemma4TowerEntries, .prefixes = kTowerPrefix, .ignored = kIgnored};
  if (const std::optional<ConfigReader> text = top.child("text_config"))
    vision.is_bidirectional = text->string("use_bidirectional_attention", "") == "vision";
  vision.placeholder = read_placeholder(top, 258880);
  vision.text = {
      .marker = "<|image|>", .before = "<|image>", .whole = "<|image|>", .after = "<image|>"};
}

}  // namespace quire
