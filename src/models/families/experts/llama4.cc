// Llama 4's text model. Layers that rotate attend in chunks and norm queries and keys without
// weights; every fourth layer sees everything, does not rotate, and scales its queries by position.
// A token's one expert reads the token times the sigmoid of its logit; a shared expert reads the
// token itself.
#include <algorithm>
#include <cmath>

#include "models/config_fields.h"
#include "models/expert_names.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr std::string_view kLlama4Types[] = {"llama4_text", "llama4"};
constexpr KeyAlias kLlama4Aliases[] = {{"num_experts", "num_local_experts"},
                                       {"decoder_sparse_step", "interleave_moe_layer_step"}};
constexpr ExpertRules kLlama4Experts{
    .router = {.num_experts = 16, .experts_per_token = 1, .weight = RouterWeight::kLogit},
    .layers = ExpertLayers::kSparseStep,
    .shared = SharedExperts::kCount,
    .shared_default = 1,
    .weighs_inputs = true,
};
constexpr std::string_view kLlama4Ignored[] = {"rotary_emb.inv_freq", "rope_freqs.",
                                               "vision_model.", "multi_modal_projector."};
constexpr std::string_view kLlama4GateUp = "layers.{}.feed_forward.experts.gate_up_proj.{e}";
// Experts are stored together, with their inputs first; quantized checkpoints store them one by
// one.
constexpr NameMapEntry kLlama4Entries[] = {
    {TensorRole::kGate, "layers.{}.feed_forward.gate_proj"},
    {TensorRole::kUp, "layers.{}.feed_forward.up_proj"},
    {TensorRole::kDown, "layers.{}.feed_forward.down_proj"},
    {TensorRole::kRouter, "layers.{}.feed_forward.router"},
    {TensorRole::kSharedGate, "layers.{}.feed_forward.shared_expert.gate_proj"},
    {TensorRole::kSharedUp, "layers.{}.feed_forward.shared_expert.up_proj"},
    {TensorRole::kSharedDown, "layers.{}.feed_forward.shared_expert.down_proj"},
    {.role = TensorRole::kExpertGate,
     .pattern = kLlama4GateUp,
     .transposed = true,
     .rows = {.part = 0, .parts = 2}},
    {.role = TensorRole::kExpertUp,
     .pattern = kLlama4GateUp,
     .transposed = true,
     .rows = {.part = 1, .parts = 2}},
    {.role = TensorRole::kExpertDown,
     .pattern = "layers.{}.feed_forward.experts.down_proj.{e}",
     .transposed = true},
    {TensorRole::kExpertGate, "layers.{}.feed_forward.experts.{e}.gate_proj"},
    {TensorRole::kExpertUp, "layers.{}.feed_forward.experts.{e}.up_proj"},
    {TensorRole::kExpertDown, "layers.{}.feed_forward.experts.{e}.down_proj"},
};
// Layers that rotate attend in chunks, unless layer_types says otherwise.
void read_chunks(const ConfigReader& reader, ModelConfig& config) {
  const bool has_types = reader.has("layer_types");
  const std::vector<std::string> types = reader.strings("layer_types");
  if (has_types && types.size() != config.layer_windows.size()) {
    reader.fail(fmt::format("layer_types: expected num_hidden_layers = {} entries, got {}",
                            config.layer_windows.size(), types.size()));
    return;
  }
  const int64_t chunk = reader.is_null("attention_chunk_size")
                            ? 0
                            : reader.integer("attention_chunk_size", {1, kMaxPositions}, 8192);
  for (size_t i = 0; i < config.layer_windows.size(); ++i) {
    if (has_types && types[i] != "chunked_attention" && types[i] != "full_attention") {
      reader.fail(fmt::format("layer_types: expected chunked_attention or full_attention, got {}",
                              types[i]));
    }
    const bool chunked = has_types ? types[i] == "chunked_attention" : config.layer_rope[i];
    config.layer_windows[i] = chunked ? static_cast<int32_t>(chunk) : 0;
  }
  config.windows_are_chunks = true;
}

// moe_layers, if present, takes precedence over the step.
void read_expert_layers(const ConfigReader& reader, ModelConfig& config) {
  if (!reader.has("moe_layers")) return;
  std::vector<bool>& layers = config.experts.layers;
  layers.assign(layers.size(), false);
  for (const double layer : reader.numbers("moe_layers")) {
    const bool is_one = layer >= 0.0 && layer < static_cast<double>(layers.size());
    if (!is_one || layer != std::floor(layer)) {
      reader.fail(fmt::format("moe_layers: expected layers from 0 to {}, got {}", layers.size() - 1,
                              layer));
      return;
    }
    layers[static_cast<size_t>(layer)] = true;
  }
}

void read_llama4(const ConfigReader& reader, ModelConfig& config) {
  // GGUF files of smaller models of this architecture, which have no chunks, state a window of 0.
  if (reader.has("sliding_window")) {
    reader.fail(fmt::format("sliding_window: expected none, got {}",
                            reader.integer("sliding_window", {0, kMaxPositions})));
  }
  read_rotating_layers(reader, config);
  read_chunks(reader, config);
  read_expert_layers(reader, config);
  // config.json calls the width of experts intermediate_size.
  config.intermediate_size = reader.integer(
      "intermediate_size_mlp", {1, 1 << 20},
      reader.has("moe_intermediate_size") ? config.intermediate_size : int64_t{16384});
  if (reader.boolean("use_qk_norm", true)) config.qk_norm = QkNorm::kHead;
  config.plain_qk_norm = true;
  // In the first checkpoints, this key is a number.
  constexpr std::string_view kTuning = "attn_temperature_tuning";
  const bool tuned =
      reader.is_integer(kTuning) ? reader.integer(kTuning, {}) != 0 : reader.boolean(kTuning, true);
  if (!tuned) return;
  config.query_scale = QueryScale{.beta = reader.positive("attn_scale", 0.1),
                                  .span = reader.integer("floor_scale", {1, kMaxPositions}, 8192),
                                  .first = 1};
  config.scales_rotated_queries = false;
}

}  // namespace

const Family& llama4_family() {
  static constexpr Family family{
      .name = "llama4",
      .model_types = kLlama4Types,
      .gguf_architecture = "llama4",
      .defaults = {.vocab_size = 202048,
                   .hidden_size = 5120,
                   .intermediate_size = 8192,
                   .num_hidden_layers = 48,
                   .num_attention_heads = 40,
                   .num_key_value_heads = 8,
                   .head_dim = 128,
                   .max_position_embeddings = 131072,
                   .norm_eps = 1e-5,
                   .rope_theta = 500000.0},
      .aliases = kLlama4Aliases,
      .rope_style = RopeStyle::kInterleaved,
      .experts = &kLlama4Experts,
      .qk_norm_after_rope = true,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_llama4,
      .hf_names = {.entries = kLlama4Entries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kLlama4Ignored,
                   .base = &kLlamaNames},
      .gguf_names = kGgufExpertNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

}  // namespace quire
