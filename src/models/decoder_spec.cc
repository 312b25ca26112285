#include <cmath>

#include "models/model_config.h"

namespace quire {
namespace {

bool has_bias(BiasRule rule, bool configured) {
  return rule == BiasRule::kAlways || (rule == BiasRule::kConfig && configured);
}

// The rotary dimension is a share of the head, rounded down as transformers does. From a GGUF file,
// which has the dimension itself, the share was computed: its last bit must not cost a dimension.
int32_t rotary_dim(const ModelConfig& config, const RopeConfig& rope) {
  const double slack = config.format == CheckpointFormat::kGguf ? 1e-6 : 0.0;
  return static_cast<int32_t>(static_cast<double>(config.head_dim) * rope.partial_rotary_factor +
                              slack);
}

Status add_ropes(const ModelConfig& config, int64_t max_model_len, DecoderSpec& spec) {
  const Family& family = *config.family;
  if (!family.has_rope) {
    spec.num_positions = config.max_position_embeddings;
    return {};
  }
  QUIRE_ASSIGN_OR_RETURN(RopeSpec rope,
                         make_rope(config.rope, rotary_dim(config, config.rope), max_model_len));
  spec.ropes.push_back(std::move(rope));
  if (!family.has_local_rope) return {};
  QUIRE_ASSIGN_OR_RETURN(
      RopeSpec local,
      make_rope(config.local_rope, rotary_dim(config, config.local_rope), max_model_len));
  spec.ropes.push_back(std::move(local));
  return {};
}

RopeStyle rope_style(const ModelConfig& config) {
  if (!config.family->has_rope) return RopeStyle::kNone;
  return config.format == CheckpointFormat::kGguf ? config.family->gguf_rope_style
                                                  : RopeStyle::kNeox;
}

// Of layer `index`, from 0.
AttentionSpec attention_spec(const ModelConfig& config, size_t index) {
  const Family& family = *config.family;
  const int32_t window = config.layer_windows[index];
  const double scalar = config.query_pre_attn_scalar.value_or(static_cast<double>(config.head_dim));
  auto scale = static_cast<float>(1.0 / std::sqrt(scalar));
  if (config.scale_by_inverse_layer) scale *= 1.0f / static_cast<float>(index + 1);
  return {.num_heads = static_cast<int32_t>(config.num_attention_heads),
          .num_kv_heads = static_cast<int32_t>(config.num_key_value_heads),
          .head_dim = static_cast<int32_t>(config.head_dim),
          .sliding_window = window,
          .scale = scale,
          .soft_cap = static_cast<float>(config.attn_logit_softcapping.value_or(0.0)),
          .rope_style = rope_style(config),
          .rope_index = family.has_local_rope && window > 0 ? 1 : 0,
          .qk_norm = family.qk_norm,
          .qkv_bias = has_bias(family.qkv_bias, config.attention_bias),
          .o_bias = has_bias(family.o_bias, config.attention_bias)};
}

FfnSpec ffn_spec(const ModelConfig& config) {
  const Family& family = *config.family;
  return {.intermediate_size = config.intermediate_size,
          .activation = config.activation,
          .gated = family.gated_mlp,
          .bias = has_bias(family.mlp_bias, config.mlp_bias)};
}

}  // namespace

Result<DecoderSpec> make_decoder_spec(const ModelConfig& config, int64_t max_model_len,
                                      DType dtype) {
  const Family& family = *config.family;
  if (!family.has_rope && max_model_len > config.max_position_embeddings) {
    return invalid_argument("--max-model-len: expected at most {} (learned positions), got {}",
                            config.max_position_embeddings, max_model_len);
  }
  DecoderSpec spec;
  spec.vocab_size = config.vocab_size;
  spec.hidden_size = config.hidden_size;
  QUIRE_RETURN_IF_ERROR(add_ropes(config, max_model_len, spec));
  for (size_t i = 0; i < config.layer_windows.size(); ++i) {
    spec.layers.push_back({.attention = attention_spec(config, i), .ffn = ffn_spec(config)});
  }
  spec.norm = family.norm;
  spec.norm_eps = static_cast<float>(config.norm_eps);
  spec.sandwich_norms = family.sandwich_norms;
  if (family.scaled_embedding) {
    spec.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
    // These models were trained with the scale in the weights' own precision.
    if (dtype == DType::kBF16) spec.embedding_scale = to_float(to_bfloat16(spec.embedding_scale));
  }
  spec.final_soft_cap = static_cast<float>(config.final_logit_softcapping.value_or(0.0));
  spec.tied_head = config.tie_word_embeddings;
  return spec;
}

}  // namespace quire
