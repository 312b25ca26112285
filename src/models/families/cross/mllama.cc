// The decoder of Llama 3.2 Vision: Llama's layers, and between them layers whose attention reads a
// tower's output for a picture (models/vision/mllama.cc) instead of earlier tokens. Learned gates
// scale the outputs of these layers. Eight tokens behind the vocabulary, which stand for pictures,
// are input only.
#include <cmath>

#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr std::string_view kMllamaTypes[] = {"mllama_text_model", "mllama"};
constexpr int64_t kUnsaidTokens = 8;

constexpr NameMapEntry bare(TensorRole role, std::string_view pattern) {
  return {.role = role, .pattern = pattern, .bare = true};
}

constexpr NameMapEntry kMllamaEntries[] = {
    {TensorRole::kCrossNorm, "layers.{}.input_layernorm"},
    {TensorRole::kCrossQ, "layers.{}.cross_attn.q_proj"},
    {TensorRole::kCrossK, "layers.{}.cross_attn.k_proj"},
    {TensorRole::kCrossV, "layers.{}.cross_attn.v_proj"},
    {TensorRole::kCrossO, "layers.{}.cross_attn.o_proj"},
    {TensorRole::kCrossQNorm, "layers.{}.cross_attn.q_norm"},
    {TensorRole::kCrossKNorm, "layers.{}.cross_attn.k_norm"},
    bare(TensorRole::kCrossGate, "layers.{}.cross_attn_attn_gate"),
    bare(TensorRole::kCrossMlpGate, "layers.{}.cross_attn_mlp_gate"),
};
constexpr std::string_view kMllamaIgnored[] = {"rotary_emb.inv_freq", "vision_model.",
                                               "multi_modal_projector."};

std::vector<bool> read_source_layers(const ConfigReader& reader, int64_t num_layers) {
  std::vector<double> listed = reader.numbers("cross_attention_layers");
  if (!reader.has("cross_attention_layers")) listed = {3, 8, 13, 18, 23, 28, 33, 38};
  std::vector<bool> reads(static_cast<size_t>(num_layers));
  for (const double layer : listed) {
    if (!(layer >= 0.0 && layer < static_cast<double>(num_layers)) || layer != std::floor(layer)) {
      reader.fail(fmt::format("cross_attention_layers: expected layers in [0, {}), got {}",
                              num_layers, layer));
      return reads;
    }
    reads[static_cast<size_t>(layer)] = true;
  }
  if (listed.empty()) reader.fail("cross_attention_layers: expected at least one layer, got none");
  return reads;
}

void read_mllama(const ConfigReader& reader, ModelConfig& config) {
  config.unsaid_tokens = kUnsaidTokens;
  config.vocab_size += kUnsaidTokens;
  config.source_layers = read_source_layers(reader, config.num_hidden_layers);
  for (size_t i = 0; i < config.source_layers.size(); ++i)
    config.layer_parts[i].attention = !config.source_layers[i];
  config.cross = {
      .num_heads = static_cast<int32_t>(config.num_attention_heads),
      .num_kv_heads = static_cast<int32_t>(config.num_key_value_heads),
      .head_dim = static_cast<int32_t>(config.head_dim),
      .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim))),
      .qk_norm = true,
      .gated = true,
      .source_size = config.hidden_size,
      .max_source_len = 1};  // the tower says how many rows there are
}

// Sets the number of source rows to those that the tower computes for a picture.
void read_tower_rows(const ConfigReader& top, ModelConfig& config) {
  const std::optional<ConfigReader> tower = top.child("vision_config");
  if (!tower) return;
  const int64_t side =
      tower->integer("image_size", {1, 4096}, 448) / tower->integer("patch_size", {1, 4096}, 14);
  const int64_t tiles = tower->integer("max_num_tiles", {1, 64}, 4);
  config.cross.max_source_len = static_cast<int32_t>(tiles * (side * side + 1));
}

}  // namespace

const Family& mllama_family() {
  static constexpr Family family{
      .name = "mllama",
      .model_types = kMllamaTypes,
      .defaults = {.vocab_size = 128256,
                   .hidden_size = 4096,
                   .intermediate_size = 14336,
                   .num_hidden_layers = 40,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 8,
                   .max_position_embeddings = 131072,
                   .norm_eps = 1e-5,
                   .rope_theta = 500000.0},
      .reads_source = true,
      .read_more = read_mllama,
      .read_whole = read_tower_rows,
      .hf_names = {.entries = kMllamaEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kMllamaIgnored,
                   .base = &kLlamaNames},
  };
  return family;
}

}  // namespace quire
