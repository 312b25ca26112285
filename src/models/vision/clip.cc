// The towers of CLIP and SigLIP: square pictures of one size, learned positions, LayerNorms with
// biases before attention and MLP. CLIP has a class token and a norm of the encoder's input, SigLIP
// a norm of its output.
#include <fmt/format.h>

#include "models/vision/tower_reader.h"

namespace quire {
namespace {

constexpr NameMapEntry kClipTowerEntries[] = {
    {.role = TensorRole::kTokenEmbedding,
     .pattern = "vision_tower.embeddings.class_embedding",
     .bare = true},
    {TensorRole::kPositionEmbedding, "vision_tower.embeddings.position_embedding"},
    {TensorRole::kEmbeddingNorm, "vision_tower.pre_layrnorm"},
    {TensorRole::kInputNorm, "vision_tower.encoder.layers.{}.layer_norm1"},
    {TensorRole::kQ, "vision_tower.encoder.layers.{}.self_attn.q_proj"},
    {TensorRole::kK, "vision_tower.encoder.layers.{}.self_attn.k_proj"},
    {TensorRole::kV, "vision_tower.encoder.layers.{}.self_attn.v_proj"},
    {TensorRole::kO, "vision_tower.encoder.layers.{}.self_attn.out_proj"},
    {TensorRole::kPreMlpNorm, "vision_tower.encoder.layers.{}.layer_norm2"},
    {TensorRole::kUp, "vision_tower.encoder.layers.{}.mlp.fc1"},
    {TensorRole::kDown, "vision_tower.encoder.layers.{}.mlp.fc2"},
    {TensorRole::kFinalNorm, "vision_tower.post_layernorm"},
    {TensorRole::kSentenceDense, "dense.{}"},
};
// The parts after the layer whose output is read, buffers, and the pooling of a whole picture.
constexpr std::string_view kIgnored[] = {"post_layernorm", "position_ids", "vision_tower.head."};

}  // namespace

const NameMap& clip_names() {
  static constexpr NameMap names{kClipTowerEntries, kTowerPrefix, kIgnored, 0.0f, nullptr, true};
  return names;
}

void read_clip(const ConfigReader& reader, const ClipTower& tower, VisionSpec& vision) {
  DecoderSpec& encoder = vision.encoder;
  encoder.hidden_size = reader.integer("hidden_size", kTowerWidth, tower.width);
  const int64_t heads = reader.integer("num_attention_heads", {1, 1024}, tower.num_heads);
  const int64_t ffn = reader.integer("intermediate_size", kTowerWidth, 3072);
  const int64_t num_layers = reader.integer("num_hidden_layers", {1, 256}, 12);
  vision.image_size = static_cast<int32_t>(reader.integer("image_size", kTowerSide, 224));
  vision.patch_size =
      static_cast<int32_t>(reader.integer("patch_size", kTowerSide, tower.patch_size));
  check_channels(reader, "num_channels");
  encoder.norm_eps =
      static_cast<float>(reader.positive("layer_norm_eps", tower.is_siglip ? 1e-6 : 1e-5));
  const Activation activation = read_tower_activation(
      reader, "hidden_act", tower.is_siglip ? "gelu_pytorch_tanh" : "quick_gelu");
  const int64_t num_used =
      tower.feature_layer < 0 ? num_layers + 1 + tower.feature_layer : tower.feature_layer;
  if (num_used < 1 || num_used > num_layers) {
    reader.fail(fmt::format("vision_feature_layer: expected one of {} layers, got {}", num_layers,
                            tower.feature_layer));
  }
  const AttentionSpec attention = tower_attention(reader, encoder.hidden_size, heads);
  // SigLIP's towers ignore pixels at the edges that do not fill a patch.
  if (!tower.is_siglip && vision.image_size % vision.patch_size != 0) {
    reader.fail(fmt::format("image_size: expected a multiple of patch_size {}, got {}",
                            vision.patch_size, vision.image_size));
  }
  if (!reader.status().ok()) return;
  const FfnSpec mlp{
      .intermediate_size = ffn, .activation = activation, .gated = false, .bias = true};
  encoder.layers.assign(static_cast<size_t>(num_used), {.attention = attention, .ffn = mlp});
  encoder.block = {.norm = NormKind::kLayer,
                   .norm_bias = true,
                   .embedding_norm = !tower.is_siglip,
                   .final_norm = tower.is_siglip};
  encoder.has_head = false;
  encoder.vocab_size = tower.is_siglip ? 0 : 1;
  const int64_t side = vision.image_size / vision.patch_size;
  encoder.num_positions = side * side + encoder.vocab_size;
  vision.positions = PatchPositions::kRows;
  vision.names = clip_names();
}

}  // namespace quire
