// Gemma 4 text: layers with a window, and full layers with wider heads, whose values may be their
// keys; last layers that read the keys and values of earlier ones; inputs of each layer (E2B, E4B);
// experts beside the MLP (26B-A4B). Norms multiply by their weights.
#include <string>

#include "models/config_reader.h"
#include "models/expert_names.h"
#include "models/families/layered/shared_kv.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr std::string_view kGemma4Types[] = {"gemma4_text", "gemma4"};
constexpr KeyAlias kGemma4Aliases[] = {{"hidden_act", "hidden_activation"},
                                       {"num_experts_per_tok", "top_k_experts"}};

constexpr NameMapEntry bare(TensorRole role, std::string_view pattern) {
  return {.role = role, .pattern = pattern, .bare = true};
}

// In a layer without a value projection, the key projection computes the values.
constexpr std::string_view kGemma4GateUp = "layers.{}.experts.gate_up_proj.{e}";
constexpr NameMapEntry kGemma4Entries[] = {
    {TensorRole::kV, "layers.{}.self_attn.v_proj"},
    {TensorRole::kV, "layers.{}.self_attn.k_proj"},
    {TensorRole::kPostAttentionNorm, "layers.{}.post_attention_layernorm"},
    {TensorRole::kPreMlpNorm, "layers.{}.pre_feedforward_layernorm"},
    {TensorRole::kPostMlpNorm, "layers.{}.post_feedforward_layernorm"},
    bare(TensorRole::kLayerScale, "layers.{}.layer_scalar"),
    {TensorRole::kLayerTable, "embed_tokens_per_layer"},
    {TensorRole::kLayerProjection, "per_layer_model_projection"},
    {TensorRole::kLayerProjectionNorm, "per_layer_projection_norm"},
    {TensorRole::kLayerInputGate, "layers.{}.per_layer_input_gate"},
    {TensorRole::kLayerInputUp, "layers.{}.per_layer_projection"},
    {TensorRole::kLayerInputNorm, "layers.{}.post_per_layer_input_norm"},
    {TensorRole::kRouter, "layers.{}.router.proj"},
    bare(TensorRole::kRouterNorm, "layers.{}.router.scale"),
    bare(TensorRole::kExpertScale, "layers.{}.router.per_expert_scale"),
    {TensorRole::kPreExpertNorm, "layers.{}.pre_feedforward_layernorm_2"},
    {TensorRole::kPostExpertNorm, "layers.{}.post_feedforward_layernorm_2"},
    {TensorRole::kPostDenseNorm, "layers.{}.post_feedforward_layernorm_1"},
    {.role = TensorRole::kExpertGate, .pattern = kGemma4GateUp, .rows = {.part = 0, .parts = 2}},
    {.role = TensorRole::kExpertUp, .pattern = kGemma4GateUp, .rows = {.part = 1, .parts = 2}},
    {TensorRole::kExpertDown, "layers.{}.experts.down_proj.{e}"},
    {TensorRole::kExpertGate, "layers.{}.experts.{e}.gate_proj"},
    {TensorRole::kExpertUp, "layers.{}.experts.{e}.up_proj"},
    {TensorRole::kExpertDown, "layers.{}.experts.{e}.down_proj"},
    {TensorRole::kSharedGate, "layers.{}.mlp.gate_proj"},
    {TensorRole::kSharedUp, "layers.{}.mlp.up_proj"},
    {TensorRole::kSharedDown, "layers.{}.mlp.down_proj"},
};
// Layers that read other layers' keys and values may still have weights for their own.
constexpr std::string_view kGemma4Ignored[] = {
    "rotary_emb.inv_freq", "vision_tower.",     "audio_tower.",
    "embed_vision.",       "embed_audio.",      "self_attn.k_proj.",
    "self_attn.v_proj.",   "self_attn.k_norm.", "self_attn.v_norm."};

constexpr std::string_view kGgufGateUp = "blk.{}.ffn_gate_up_exps.{e}";
constexpr NameMapEntry kGemma4GgufEntries[] = {
    {TensorRole::kV, "blk.{}.attn_v"},
    {TensorRole::kV, "blk.{}.attn_k"},
    {TensorRole::kLayerScale, "blk.{}.layer_output_scale"},
    {TensorRole::kLayerTable, "per_layer_token_embd"},
    {TensorRole::kLayerProjection, "per_layer_model_proj"},
    {TensorRole::kLayerProjectionNorm, "per_layer_proj_norm"},
    {TensorRole::kLayerInputGate, "blk.{}.inp_gate"},
    {TensorRole::kLayerInputUp, "blk.{}.proj"},
    {TensorRole::kLayerInputNorm, "blk.{}.post_norm"},
    bare(TensorRole::kRouterNorm, "blk.{}.ffn_gate_inp.scale"),
    bare(TensorRole::kExpertScale, "blk.{}.ffn_down_exps.scale"),
    {TensorRole::kPreExpertNorm, "blk.{}.pre_ffw_norm_2"},
    {TensorRole::kPostExpertNorm, "blk.{}.post_ffw_norm_2"},
    {TensorRole::kPostDenseNorm, "blk.{}.post_ffw_norm_1"},
    {.role = TensorRole::kExpertGate, .pattern = kGgufGateUp, .rows = {.part = 0, .parts = 2}},
    {.role = TensorRole::kExpertUp, .pattern = kGgufGateUp, .rows = {.part = 1, .parts = 2}},
    {TensorRole::kExpertGate, "blk.{}.ffn_gate_exps.{e}"},
    {TensorRole::kExpertUp, "blk.{}.ffn_up_exps.{e}"},
    {TensorRole::kSharedGate, "blk.{}.ffn_gate"},
    {TensorRole::kSharedUp, "blk.{}.ffn_up"},
    {TensorRole::kSharedDown, "blk.{}.ffn_down"},
};
constexpr std::string_view kGgufIgnored[] = {"rope_freqs.", ".attn_k.", ".attn_v.",
                                             ".attn_k_norm."};

constexpr ExpertRules kGemma4Experts{
    .router = {.num_experts = 0,
               .experts_per_token = 8,
               .weight = RouterWeight::kNormalized,
               .min_sum = 1e-20f},
    .may_have_none = true,
};

void read_experts_beside(const ConfigReader& reader, ModelConfig& config) {
  if (!reader.boolean("enable_moe_block", config.experts.spec.any())) {
    config.experts = {};
    return;
  }
  if (!config.experts.spec.any()) {
    reader.fail("num_experts: expected at least 1 with enable_moe_block, got 0");
    return;
  }
  config.experts.spec.has_scale = true;
  config.experts.spec.own_norms = true;
  config.experts.shared_intermediate_size = config.intermediate_size;
}

// Reads the keys that newer files state layer by layer. Only full layers may differ from the
// others, and all in the same way.
void read_layer_shapes(const ConfigReader& reader, ModelConfig& config) {
  const std::optional<ConfigReader> shapes = reader.child("per_layer_config");
  if (!shapes) return;
  bool is_first = true;
  for (size_t i = 0; i < config.layer_windows.size(); ++i) {
    const std::optional<ConfigReader> shape = shapes->child(std::to_string(i));
    if (!shape) continue;
    const int64_t dim = shape->integer("head_dim", {2, kMaxAttentionHeadDim}, config.head_dim);
    const int64_t kv_heads =
        shape->integer("num_key_value_heads", {1, 4096}, config.num_key_value_heads);
    const bool alike = dim == config.full_head_dim && kv_heads == config.full_kv_heads;
    if (config.layer_windows[i] > 0 || (!is_first && !alike)) {
      reader.fail(fmt::format(
          "per_layer_config: expected full layers alone, all with the same heads, got layer {} "
          "with {} KV heads of {}",
          i, kv_heads, dim));
      return;
    }
    config.full_head_dim = dim;
    config.full_kv_heads = kv_heads;
    is_first = false;
  }
}

void read_gemma4(const ConfigReader& reader, ModelConfig& config) {
  config.attention_scale = 1.0;
  config.value_norm = true;
  config.layer_scale = reader.boolean("layer_scalar", true);
  config.final_logit_softcapping = reader.optional_positive("final_logit_softcapping");
  if (reader.string("use_bidirectional_attention", "") == "all")
    reader.fail("use_bidirectional_attention: expected null or vision, got all");
  if (!reader.has("rope_parameters") && !reader.has("rope_freq_factors"))
    reader.fail("rope_parameters: expected full_attention and sliding_attention, got nothing");
  config.layer_windows.back() = 0;  // whatever layer_types says
  config.full_layers_see_ends = false;
  config.full_head_dim = reader.integer("global_head_dim", {2, kMaxAttentionHeadDim}, 512);
  config.full_kv_heads = config.num_key_value_heads;
  // GGUF files state the number of KV heads if it differs.
  if (reader.boolean("attention_k_eq_v", reader.has("rope_freq_factors"))) {
    config.full_kv_heads =
        reader.integer("num_global_key_value_heads", {1, 4096}, config.num_key_value_heads);
  }
  read_layer_shapes(reader, config);
  if (config.full_head_dim % 2 != 0)
    reader.fail(
        fmt::format("global_head_dim: expected an even number, got {}", config.full_head_dim));
  if (config.num_attention_heads % config.full_kv_heads != 0) {
    reader.fail(fmt::format(
        "num_global_key_value_heads: expected a divisor of num_attention_heads {}, got {}",
        config.num_attention_heads, config.full_kv_heads));
  }
  read_shared_kv(reader, config, 0);
  if (reader.boolean("use_double_wide_mlp", false) && config.ffn_sizes.empty()) {
    for (const int32_t source : config.kv_layers)
      config.ffn_sizes.push_back(config.intermediate_size * (source < 0 ? 1 : 2));
  }
  read_layer_inputs(reader, config);
  read_experts_beside(reader, config);
}

constexpr std::string_view kUnifiedTypes[] = {"gemma4_unified_text", "gemma4_unified"};

// For models whose layers have no inputs of their own.
void read_unified(const ConfigReader& reader, ModelConfig& config) {
  read_gemma4(reader, config);
  if (!reader.has("hidden_size_per_layer_input")) config.layer_inputs = {};
}

}  // namespace

const Family& gemma4_unified_family() {
  static const Family family = [] {
    Family unified = gemma4_family();
    unified.name = "gemma4_unified_text";
    unified.model_types = kUnifiedTypes;
    unified.defaults.max_position_embeddings = 262144;
    unified.defaults.sliding_window = 1024;
    unified.read_more = read_unified;
    return unified;
  }();
  return family;
}

const Family& gemma4_family() {
  static constexpr Family family{
      .name = "gemma4_text",
      .model_types = kGemma4Types,
      .gguf_architecture = "gemma4",
      .defaults = {.vocab_size = 262144,
                   .hidden_size = 2304,
                   .intermediate_size = 9216,
                   .num_hidden_layers = 30,
                   .num_attention_heads = 8,
                   .num_key_value_heads = 4,
                   .head_dim = 256,
                   .max_position_embeddings = 131072,
                   .sliding_window = 512,
                   .rope_theta = 1e6,
                   .activation = "gelu_pytorch_tanh",
                   .tie_word_embeddings = true},
      .aliases = kGemma4Aliases,
      .window_rule = WindowRule::kPattern,
      .window_pattern = 6,
      .has_local_rope = true,
      .experts = &kGemma4Experts,
      .block = {.output_norms = true},
      .qk_norm = QkNorm::kHead,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .scaled_embedding = true,
      .read_more = read_gemma4,
      .hf_names = {.entries = kGemma4Entries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kGemma4Ignored,
                   .base = &kLlamaNames},
      .gguf_names = {.entries = kGemma4GgufEntries,
                     .prefixes = kGgufPrefixes,
                     .ignored = kGgufIgnored,
                     .base = &kGgufExpertNames},
  };
  return family;
}

}  // namespace quire
