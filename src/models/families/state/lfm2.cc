// LFM2: short convolutions and some layers of attention, with an MLP or, after the first layers,
// routed experts (LFM2-MoE).
#include "models/config_reader.h"
#include "models/expert_names.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr NameMapEntry kLfm2Entries[] = {
    {TensorRole::kFinalNorm, "embedding_norm"},
    {TensorRole::kInputNorm, "layers.{}.operator_norm"},
    {TensorRole::kPreMlpNorm, "layers.{}.ffn_norm"},
    {TensorRole::kO, "layers.{}.self_attn.out_proj"},
    {TensorRole::kQNorm, "layers.{}.self_attn.q_layernorm"},
    {TensorRole::kKNorm, "layers.{}.self_attn.k_layernorm"},
    {TensorRole::kStateIn, "layers.{}.conv.in_proj"},
    {TensorRole::kStateConv, "layers.{}.conv.conv"},
    {TensorRole::kStateOut, "layers.{}.conv.out_proj"},
    {TensorRole::kGate, "layers.{}.feed_forward.w1"},
    {TensorRole::kUp, "layers.{}.feed_forward.w3"},
    {TensorRole::kDown, "layers.{}.feed_forward.w2"},
    {TensorRole::kRouter, "layers.{}.feed_forward.gate"},
    {.role = TensorRole::kRouterCorrection,
     .pattern = "layers.{}.feed_forward.expert_bias",
     .bare = true},
    {TensorRole::kExpertGate, "layers.{}.feed_forward.experts.{e}.w1"},
    {TensorRole::kExpertUp, "layers.{}.feed_forward.experts.{e}.w3"},
    {TensorRole::kExpertDown, "layers.{}.feed_forward.experts.{e}.w2"},
};
constexpr NameMap kLfm2Names{.entries = kLfm2Entries,
                             .prefixes = kLlamaPrefixes,
                             .ignored = kIgnoredTensors,
                             .base = &kLlamaNames};
constexpr NameMapEntry kLfm2GgufEntries[] = {
    {TensorRole::kFinalNorm, "token_embd_norm"},
    {TensorRole::kFinalNorm, "output_norm"},
    {TensorRole::kStateIn, "blk.{}.shortconv.in_proj"},
    {TensorRole::kStateConv, "blk.{}.shortconv.conv"},
    {TensorRole::kStateOut, "blk.{}.shortconv.out_proj"},
};
constexpr NameMap kGgufLfmNames{.entries = kLfm2GgufEntries,
                                .prefixes = kGgufPrefixes,
                                .ignored = kIgnoredTensors,
                                .base = &kGgufExpertNames};
constexpr std::string_view kLfm2Types[] = {"lfm2"};
constexpr std::string_view kMoeTypes[] = {"lfm2_moe"};
constexpr KeyAlias kLfm2Aliases[] = {{"rms_norm_eps", "norm_eps"},
                                     {"intermediate_size", "block_ff_dim"},
                                     {"tie_word_embeddings", "tie_embedding"},
                                     {"first_k_dense_replace", "num_dense_layers"}};
constexpr LayerWord kWords[] = {
    {"conv", kStateParts}, {"linear_attention", kStateParts}, {"full_attention", kAttentionParts}};
constexpr ExpertRules kLfm2Experts{
    .router = {.num_experts = 32,
               .experts_per_token = 4,
               .score = RouterScore::kSigmoid,
               .min_sum = 1e-6f},
    .intermediate_size = 1792,
    .normalizes = true,
    .gguf_normalizes = true,
    .layers = ExpertLayers::kAfterDense,
    .first_layer = 2,
    .has_correction = true,
};

void read_layers(const ConfigReader& reader, ModelConfig& config) {
  // Older configurations list the layers with attention.
  if (!read_layer_types(reader, kWords, config) && reader.has("full_attn_idxs"))
    read_layer_numbers(reader, "full_attn_idxs", kStateParts, kAttentionParts, config);
  const bool bias = reader.boolean("conv_bias", false);
  config.state = {.kind = StateKind::kShortConv,
                  .conv_kernel = read_conv_kernel(reader, "conv_L_cache", 3),
                  .conv_bias = bias,
                  .proj_bias = bias,
                  .out_bias = bias,
                  .num_heads = static_cast<int32_t>(config.hidden_size)};
}

// Unless the configuration says otherwise, the MLP's width is 2 / 3 of the stated one, times a
// factor, rounded up.
void read_lfm2(const ConfigReader& reader, ModelConfig& config) {
  read_layers(reader, config);
  if (!reader.boolean("block_auto_adjust_ff_dim", true)) return;
  const int64_t multiple = reader.integer("block_multiple_of", {1, 1 << 16}, 256);
  const double factor = reader.positive("block_ffn_dim_multiplier", 1.0);
  const auto size =
      static_cast<int64_t>(factor * static_cast<double>(2 * config.intermediate_size / 3));
  config.intermediate_size = (size + multiple - 1) / multiple * multiple;
}

void read_lfm2_moe(const ConfigReader& reader, ModelConfig& config) {
  read_layers(reader, config);
  config.experts.spec.has_correction = reader.boolean("use_expert_bias", true);
}

}  // namespace

const Family& lfm2_family() {
  static constexpr Family family{
      .name = "lfm2",
      .model_types = kLfm2Types,
      .gguf_architecture = "lfm2",
      .defaults = {.vocab_size = 65536,
                   .hidden_size = 2560,
                   .intermediate_size = 12288,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 8,
                   .max_position_embeddings = 128000,
                   .norm_eps = 1e-5,
                   .rope_theta = 1e6,
                   .tie_word_embeddings = true},
      .aliases = kLfm2Aliases,
      .qk_norm = QkNorm::kHead,
      .read_more = read_lfm2,
      .hf_names = kLfm2Names,
      .gguf_names = kGgufLfmNames,
  };
  return family;
}

const Family& lfm2_moe_family() {
  static constexpr Family family{
      .name = "lfm2_moe",
      .model_types = kMoeTypes,
      .gguf_architecture = "lfm2moe",
      .defaults = {.vocab_size = 65536,
                   .hidden_size = 2048,
                   .intermediate_size = 7168,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 8,
                   .max_position_embeddings = 128000,
                   .norm_eps = 1e-5,
                   .rope_theta = 1e6,
                   .tie_word_embeddings = true},
      .aliases = kLfm2Aliases,
      .experts = &kLfm2Experts,
      .qk_norm = QkNorm::kHead,
      .read_more = read_lfm2_moe,
      .hf_names = kLfm2Names,
      .gguf_names = kGgufLfmNames,
  };
  return family;
}

}  // namespace quire
