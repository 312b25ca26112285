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
    spec.rope_style = RopeStyle::kNone;
    spec.num_positions = config.max_position_embeddings;
    return {};
  }
  spec.rope_style =
      config.format == CheckpointFormat::kGguf ? family.gguf_rope_style : RopeStyle::kNeox;
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
  spec.ffn_size = config.intermediate_size;
  spec.num_heads = static_cast<int32_t>(config.num_attention_heads);
  spec.num_kv_heads = static_cast<int32_t>(config.num_key_value_heads);
  spec.head_dim = static_cast<int32_t>(config.head_dim);
  QUIRE_RETURN_IF_ERROR(add_ropes(config, max_model_len, spec));
  for (const int32_t window : config.layer_windows) {
    const bool local = family.has_local_rope && window > 0;
    spec.layers.push_back({.sliding_window = window, .rope_index = local ? 1 : 0});
  }
  spec.norm = family.norm;
  spec.norm_eps = static_cast<float>(config.norm_eps);
  spec.sandwich_norms = family.sandwich_norms;
  spec.qk_norm = family.qk_norm;
  spec.qkv_bias = has_bias(family.qkv_bias, config.attention_bias);
  spec.o_bias = has_bias(family.o_bias, config.attention_bias);
  spec.mlp_bias = has_bias(family.mlp_bias, config.mlp_bias);
  spec.activation = config.activation;
  spec.gated_mlp = family.gated_mlp;
  if (family.scaled_embedding) {
    spec.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
    // These models were trained with the scale in the weights' own precision.
    if (dtype == DType::kBF16) spec.embedding_scale = to_float(to_bfloat16(spec.embedding_scale));
  }
  const double scalar = config.query_pre_attn_scalar.value_or(static_cast<double>(config.head_dim));
  spec.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar));
  spec.attention_soft_cap = static_cast<float>(config.attn_logit_softcapping.value_or(0.0));
  spec.final_soft_cap = static_cast<float>(config.final_logit_softcapping.value_or(0.0));
  if (config.scale_by_inverse_layer) {
    for (size_t i = 0; i < spec.layers.size(); ++i) {
      spec.layers[i].attention_share = 1.0f / static_cast<float>(i + 1);
    }
  }
  spec.tied_head = config.tie_word_embeddings;
  return spec;
}

}  // namespace quire
