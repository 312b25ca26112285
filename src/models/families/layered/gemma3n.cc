// Gemma 3n text (E2B, E4B): several residual streams, a narrow linear map beside attention, inputs
// of each layer, sparse MLPs in the first layers, and last layers that read the keys and values of
// earlier ones. Norms multiply by their weights.
#include "models/config_reader.h"
#include "models/families/layered/shared_kv.h"
#include "models/families/layered/sparse_mlps.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"
#include "nn/spec/stream_limits.h"

namespace quire {
namespace {

constexpr std::string_view kGemma3nTypes[] = {"gemma3n_text", "gemma3n"};
constexpr KeyAlias kGemma3nAliases[] = {{"hidden_act", "hidden_activation"}};

constexpr NameMapEntry kGemma3nEntries[] = {
    {TensorRole::kPostAttentionNorm, "layers.{}.post_attention_layernorm"},
    {TensorRole::kPreMlpNorm, "layers.{}.pre_feedforward_layernorm"},
    {TensorRole::kPostMlpNorm, "layers.{}.post_feedforward_layernorm"},
    {TensorRole::kLayerTable, "embed_tokens_per_layer"},
    {TensorRole::kLayerProjection, "per_layer_model_projection"},
    {TensorRole::kLayerProjectionNorm, "per_layer_projection_norm"},
    {TensorRole::kLayerInputGate, "layers.{}.per_layer_input_gate"},
    {TensorRole::kLayerInputUp, "layers.{}.per_layer_projection"},
    {TensorRole::kLayerInputNorm, "layers.{}.post_per_layer_input_norm"},
    {TensorRole::kStreamIn, "altup_projections.{e}"},
    {TensorRole::kStreamOut, "altup_unembed_projections.{e}"},
    {TensorRole::kStreamRouterNorm, "layers.{}.altup.router_norm"},
    {TensorRole::kStreamRouter, "layers.{}.altup.modality_router"},
    {TensorRole::kStreamPredict, "layers.{}.altup.prediction_coefs"},
    {TensorRole::kStreamCorrect, "layers.{}.altup.correction_coefs"},
    {.role = TensorRole::kStreamScale,
     .pattern = "layers.{}.altup.correct_output_scale",
     .bare = true},
    {TensorRole::kLaurelDown, "layers.{}.laurel.linear_left"},
    {TensorRole::kLaurelUp, "layers.{}.laurel.linear_right"},
    {TensorRole::kLaurelNorm, "layers.{}.laurel.post_laurel_norm"},
};
// Layers that read other layers' keys and values may still have weights for their own, and layers
// have the scale whether it is used or not.
constexpr std::string_view kGemma3nIgnored[] = {
    "rotary_emb.inv_freq", "vision_tower.",     "audio_tower.",
    "embed_vision.",       "embed_audio.",      "self_attn.k_proj.",
    "self_attn.v_proj.",   "self_attn.k_norm.", "altup.correct_output_scale"};

constexpr NameMapEntry kGemma3nGgufEntries[] = {
    {TensorRole::kLayerTable, "per_layer_token_embd"},
    {TensorRole::kLayerProjection, "per_layer_model_proj"},
    {TensorRole::kLayerProjectionNorm, "per_layer_proj_norm"},
    {TensorRole::kLayerInputGate, "blk.{}.inp_gate"},
    {TensorRole::kLayerInputUp, "blk.{}.proj"},
    {TensorRole::kLayerInputNorm, "blk.{}.post_norm"},
    {TensorRole::kStreamIn, "altup_proj.{e}"},
    {TensorRole::kStreamOut, "altup_unembd_proj.{e}"},
    {TensorRole::kStreamRouterNorm, "blk.{}.altup_router_norm"},
    {TensorRole::kStreamRouter, "blk.{}.altup_router"},
    {TensorRole::kStreamPredict, "blk.{}.altup_predict_coef"},
    {TensorRole::kStreamCorrect, "blk.{}.altup_correct_coef"},
    {TensorRole::kStreamScale, "blk.{}.altup_correct_scale"},
    {TensorRole::kLaurelDown, "blk.{}.laurel_l"},
    {TensorRole::kLaurelUp, "blk.{}.laurel_r"},
    {TensorRole::kLaurelNorm, "blk.{}.laurel_post_norm"},
};
constexpr std::string_view kGgufIgnored[] = {"rope_freqs.", ".attn_k.", ".attn_v.", ".attn_k_norm.",
                                             ".altup_correct_scale."};

void read_gemma3n(const ConfigReader& reader, ModelConfig& config) {
  config.attention_scale = 1.0;
  config.value_norm = true;
  config.final_logit_softcapping = reader.positive_or_null("final_logit_softcapping", 30.0);
  read_shared_kv(reader, config, 15);
  read_layer_inputs(reader, config);
  if (!config.layer_inputs.any())
    reader.fail("hidden_size_per_layer_input: expected at least 1, got 0");
  StreamsSpec& streams = config.streams;
  streams.count = static_cast<int32_t>(reader.integer("altup_num_inputs", {1, kMaxStreams}, 4));
  streams.active =
      static_cast<int32_t>(reader.integer("altup_active_idx", {0, streams.count - 1}, 0));
  streams.scales_output = reader.boolean("altup_correct_scale", true);
  streams.laurel_rank = reader.integer("laurel_rank", {1, 1 << 20}, 64);
  read_sparse_mlps(reader, config);
}

}  // namespace

const Family& gemma3n_family() {
  static constexpr Family family{
      .name = "gemma3n_text",
      .model_types = kGemma3nTypes,
      .gguf_architecture = "gemma3n",
      .defaults = {.vocab_size = 262400,
                   .hidden_size = 2048,
                   .intermediate_size = 16384,
                   .num_hidden_layers = 35,
                   .num_attention_heads = 8,
                   .num_key_value_heads = 2,
                   .head_dim = 256,
                   .max_position_embeddings = 32768,
                   .sliding_window = 512,
                   .rope_theta = 1e6,
                   .activation = "gelu_pytorch_tanh",
                   .tie_word_embeddings = true},
      .aliases = kGemma3nAliases,
      .window_rule = WindowRule::kPattern,
      .window_pattern = 5,
      .has_local_rope = true,
      .block = {.output_norms = true},
      .qk_norm = QkNorm::kHead,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .scaled_embedding = true,
      .read_more = read_gemma3n,
      .hf_names = {.entries = kGemma3nEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kGemma3nIgnored,
                   .base = &kLlamaNames},
      .gguf_names = {.entries = kGemma3nGgufEntries,
                     .prefixes = kGgufPrefixes,
                     .ignored = kGgufIgnored,
                     .base = &kGgufNames},
  };
  return family;
}

}  // namespace quire
