#include <bit>
#include <cmath>
#include <vector>

#include "models/model_config.h"

namespace quire {
namespace {

// The rotary dimension is a share of the head, rounded down as in transformers. For a GGUF file,
// which has the dimension itself, the share was computed from it, and an error in its last bit must
// not cost a dimension.
int32_t rotary_dim(const ModelConfig& config, const RopeConfig& rope, int64_t head_dim) {
  if (rope.type == RopeType::kProportional) return static_cast<int32_t>(head_dim);
  const double slack = config.format == CheckpointFormat::kGguf ? 1e-6 : 0.0;
  return static_cast<int32_t>(static_cast<double>(head_dim) * rope.partial_rotary_factor + slack);
}

// Returns the head dimension of a layer with such a window.
int64_t head_dim_of(const ModelConfig& config, int32_t window) {
  return window == 0 && config.full_head_dim > 0 ? config.full_head_dim : config.head_dim;
}

// The slopes of ALiBi (Press et al., 2022). For a power of two of heads they are a geometric
// sequence; otherwise they are those of the next lower power of two, followed by every second one
// of the next higher power.
std::vector<float> alibi_slopes(const ModelConfig& config) {
  const auto heads = static_cast<uint64_t>(config.num_attention_heads);
  const uint64_t floor = std::bit_floor(heads);
  std::vector<float> slopes;
  for (uint64_t i = 0; i < heads; ++i) {
    const double step = config.alibi_bias_max / static_cast<double>(i < floor ? floor : 2 * floor);
    const double exponent = static_cast<double>(i < floor ? i + 1 : 2 * (i - floor) + 1) * step;
    slopes.push_back(static_cast<float>(std::exp2(-exponent) * config.alibi_scale));
  }
  return slopes;
}

Status add_ropes(const ModelConfig& config, int64_t max_model_len, DecoderSpec& spec) {
  const Family& family = *config.family;
  if (config.positions == PositionKind::kLearned) {
    spec.first_position_row = family.first_position_row;
    spec.num_positions = config.max_position_embeddings + family.first_position_row;
  }
  if (config.positions == PositionKind::kAlibi) spec.alibi_slopes = alibi_slopes(config);
  if (config.positions != PositionKind::kRope) return {};
  QUIRE_ASSIGN_OR_RETURN(
      RopeSpec rope, make_rope(config.rope, rotary_dim(config, config.rope, head_dim_of(config, 0)),
                               max_model_len));
  spec.ropes.push_back(std::move(rope));
  if (!family.has_local_rope) return {};
  QUIRE_ASSIGN_OR_RETURN(
      RopeSpec local,
      make_rope(config.local_rope, rotary_dim(config, config.local_rope, config.head_dim),
                max_model_len));
  spec.ropes.push_back(std::move(local));
  return {};
}

// `index` counts layers from 0.
RopeStyle rope_style(const ModelConfig& config, size_t index) {
  if (config.positions != PositionKind::kRope || !config.layer_rope[index]) return RopeStyle::kNone;
  return config.format == CheckpointFormat::kGguf ? config.family->gguf_rope_style
                                                  : config.family->rope_style;
}

// YaRN scales the scores of latent attention and leaves cos and sin unchanged.
double latent_scale(const ModelConfig& config) {
  const LatentSpec& latent = config.latent;
  const double scale = 1.0 / std::sqrt(static_cast<double>(latent.nope_dim + latent.rope_dim));
  const double mscale = config.rope.type == RopeType::kYarn && config.rope.mscale_all_dim
                            ? yarn_mscale(config.rope.factor, *config.rope.mscale_all_dim)
                            : 1.0;
  return scale * mscale * mscale;
}

// `index` counts layers from 0. If no sequence is longer than top_k, there is nothing to choose.
IndexSpec index_spec(const ModelConfig& config, size_t index, int64_t max_model_len) {
  if (max_model_len <= config.index.top_k) return {};
  if (config.index_layers.empty() || config.index_layers[index]) return config.index;
  return {.top_k = config.index.top_k};
}

// `index` counts layers from 0.
AttentionSpec attention_spec(const ModelConfig& config, size_t index, int64_t max_model_len) {
  const Family& family = *config.family;
  const int32_t window = config.layer_windows[index];
  const int64_t head_dim = head_dim_of(config, window);
  const int64_t heads =
      config.layer_heads.empty() ? config.num_attention_heads : config.layer_heads[index];
  int64_t kv_heads =
      window == 0 && config.full_kv_heads > 0 ? config.full_kv_heads : config.num_key_value_heads;
  if (!config.layer_kv_heads.empty()) kv_heads = config.layer_kv_heads[index];
  const double head_scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  auto scale = static_cast<float>(config.attention_scale.value_or(head_scale));
  if (!config.layer_parts[index].attention) return {};
  const RopeStyle style = rope_style(config, index);
  const bool rotates = style != RopeStyle::kNone;
  if (config.scale_by_inverse_layer) scale *= 1.0f / static_cast<float>(index + 1);
  const LatentSpec& latent = config.latent;
  const bool is_latent = latent.any();
  if (is_latent) scale = static_cast<float>(latent_scale(config));
  return {.num_heads = static_cast<int32_t>(heads),
          .num_kv_heads = is_latent ? 1 : static_cast<int32_t>(kv_heads),
          .head_dim = is_latent ? latent.rank + latent.rope_dim : static_cast<int32_t>(head_dim),
          .sliding_window = window,
          .window_is_chunk = config.windows_are_chunks && window > 0,
          .causal = !config.is_bidirectional,
          .sees_ends = config.full_layers_see_ends || window > 0,
          .scale = scale,
          .soft_cap = static_cast<float>(config.attn_logit_softcapping.value_or(0.0)),
          .rope_style = style,
          .rope_index = family.has_local_rope && window > 0 ? 1 : 0,
          .qk_norm = config.plain_qk_norm && !rotates ? std::nullopt : config.qk_norm,
          .qk_norm_after_rope = family.qk_norm_after_rope,
          .plain_qk_norm = config.plain_qk_norm && config.qk_norm && rotates,
          .qk_norm_eps = static_cast<float>(config.norm_eps),
          .scales_queries = config.query_scale && (config.scales_rotated_queries || !rotates),
          .value_norm = config.value_norm,
          .qkv_clip = static_cast<float>(config.qkv_clip),
          .kv_layer = config.kv_layers.empty() ? -1 : config.kv_layers[index],
          .has_sinks = family.has_sinks,
          .has_output_gate = config.has_output_gate,
          .has_output_norm = config.has_inner_norms,
          .output_scale = static_cast<float>(config.attention_output_scale),
          .qkv_bias = config.qkv_bias,
          .o_bias = config.o_bias,
          .latent = latent,
          .index = index_spec(config, index, max_model_len)};
}

// `index` counts layers from 0.
FfnSpec ffn_spec(const ModelConfig& config, size_t index) {
  if (!config.layer_parts[index].ffn) return {};
  const bool has_sizes = !config.ffn_sizes.empty();
  FfnSpec ffn{.intermediate_size = has_sizes ? config.ffn_sizes[index] : config.intermediate_size,
              .activation = config.activation,
              .gated = config.gated_mlp,
              .bias = config.mlp_bias,
              .gate_scale = static_cast<float>(config.ffn_gate_scale),
              .gate_cut = config.gate_cuts.empty() ? std::nullopt : config.gate_cuts[index],
              .inner_scale = static_cast<float>(config.ffn_inner_scale),
              .has_inner_norm = config.has_inner_norms};
  if (config.experts.has(index)) {
    ffn.experts = config.experts.spec;
    ffn.has_output_norm = config.norms_experts;
    ffn.intermediate_size = config.experts.shared_intermediate_size;
  }
  return ffn;
}

void set_cross(const ModelConfig& config, int64_t max_model_len, DecoderSpec& spec) {
  spec.cross = config.cross;
  // Without positions, a source may be as long as the decoder's own sequence.
  if (config.positions == PositionKind::kNone)
    spec.cross.max_source_len = static_cast<int32_t>(max_model_len);
  for (size_t i = 0; i < spec.layers.size(); ++i)
    spec.layers[i].reads_source = config.source_layers.empty() || config.source_layers[i];
}

}  // namespace

Result<DecoderSpec> make_decoder_spec(const ModelConfig& config, int64_t max_model_len,
                                      DType dtype) {
  const Family& family = *config.family;
  if (config.positions == PositionKind::kLearned &&
      max_model_len > config.max_position_embeddings) {
    return invalid_argument("--max-model-len: expected at most {} (learned positions), got {}",
                            config.max_position_embeddings, max_model_len);
  }
  DecoderSpec spec;
  spec.vocab_size = config.vocab_size;
  spec.hidden_size = config.hidden_size;
  QUIRE_RETURN_IF_ERROR(add_ropes(config, max_model_len, spec));
  for (size_t i = 0; i < config.layer_windows.size(); ++i) {
    spec.layers.push_back({.attention = attention_spec(config, i, max_model_len),
                           .state = config.layer_parts[i].state ? config.state : StateSpec{},
                           .ffn = ffn_spec(config, i)});
    if (config.shared_blocks.empty()) continue;
    spec.layers.back().shared = config.shared_blocks[i];
    spec.layers.back().attention.reads_pairs = config.shared_blocks[i].any();
  }
  if (config.draft_layer >= 0) spec.layers = {spec.layers[static_cast<size_t>(config.draft_layer)]};
  spec.draft_input = config.draft_input;
  spec.head_size = config.head_size;
  spec.unsaid_tokens = config.unsaid_tokens;
  if (config.draft_input.any()) {
    spec.layers[0].attention.reads_pairs = config.draft_input.is_beside;
    spec.layers[0].has_input_norm =
        config.draft_input.first_layer_norms && !config.draft_input.is_beside;
  }
  spec.relative_bias = config.relative_bias;
  if (!config.first_layer_norm) spec.layers.front().has_input_norm = false;
  spec.block = config.block;
  spec.layer_inputs = config.layer_inputs;
  spec.streams = config.streams;
  spec.layer_scale = config.layer_scale;
  spec.query_scale = config.query_scale;
  // With x' = x / r a layer's x += r * y is x' += y, and a norm of x is that of x' with eps / r^2:
  // the residual multiplier r costs nothing.
  const double r = config.residual_multiplier;
  spec.norm_eps = static_cast<float>(config.norm_eps / (r * r));
  spec.embedding_scale = static_cast<float>(config.embedding_multiplier / r);
  if (family.scaled_embedding) {
    spec.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
    // These models were trained with the scale rounded to the weights' type.
    if (dtype == DType::kBF16) spec.embedding_scale = to_float(to_bfloat16(spec.embedding_scale));
  }
  spec.logit_scale = static_cast<float>(config.logit_multiplier);
  spec.final_soft_cap = static_cast<float>(config.final_logit_softcapping.value_or(0.0));
  spec.num_token_types = config.num_token_types;
  spec.has_head = !config.is_bidirectional && !config.pooling.any();
  spec.pooling = config.pooling;
  if (config.cross.any()) set_cross(config, max_model_len, spec);
  spec.tied_head = config.tie_word_embeddings;
  spec.head_bias = config.head_bias && spec.has_head;
  spec.logit_bias = config.logit_bias && spec.has_head;
  return spec;
}

}  // namespace quire
