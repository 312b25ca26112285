// Encoders with BERT's order of norms and rope: GTE (Alibaba's "new" models), which also has a gate
// in the MLP, and Jina's third embeddings.
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

// The names as published, followed by those that transformers would use.
constexpr NameMapEntry kGteEntries[] = {
    {TensorRole::kTokenEmbedding, "embeddings.word_embeddings"},
    {TensorRole::kTokenTypeEmbedding, "embeddings.token_type_embeddings"},
    {TensorRole::kEmbeddingNorm, "embeddings.LayerNorm"},
    {TensorRole::kQkv, "encoder.layer.{}.attention.qkv_proj"},
    {TensorRole::kQ, "layers.{}.self_attn.q_proj"},
    {TensorRole::kK, "layers.{}.self_attn.k_proj"},
    {TensorRole::kV, "layers.{}.self_attn.v_proj"},
    {TensorRole::kO, "encoder.layer.{}.attention.o_proj"},
    {TensorRole::kO, "layers.{}.self_attn.o_proj"},
    {TensorRole::kPostAttentionNorm, "encoder.layer.{}.attn_ln"},
    {TensorRole::kPostAttentionNorm, "layers.{}.post_attention_layernorm"},
    {.role = TensorRole::kUp,
     .pattern = "encoder.layer.{}.mlp.up_gate_proj",
     .rows = {0, 2},
     .has_bias = false},
    {.role = TensorRole::kUp, .pattern = "layers.{}.mlp.up_proj", .has_bias = false},
    {.role = TensorRole::kGate,
     .pattern = "encoder.layer.{}.mlp.up_gate_proj",
     .rows = {1, 2},
     .has_bias = false},
    {.role = TensorRole::kGate, .pattern = "layers.{}.mlp.gate_proj", .has_bias = false},
    {TensorRole::kDown, "encoder.layer.{}.mlp.down_proj"},
    {TensorRole::kDown, "layers.{}.mlp.down_proj"},
    {TensorRole::kPostMlpNorm, "encoder.layer.{}.mlp_ln"},
    {TensorRole::kPostMlpNorm, "layers.{}.post_mlp_layernorm"},
};
constexpr NamePrefix kGtePrefixes[] = {{"new.", ""}, {"gte.", ""}, {"", ""}};
constexpr std::string_view kGteIgnored[] = {"pooler.", "lm_head.", "position_ids", "inv_freq"};
constexpr std::string_view kGteTypes[] = {"gte", "new"};
constexpr KeyAlias kGteAliases[] = {{"rms_norm_eps", "layer_norm_eps"}};

void read_gte(const ConfigReader& reader, ModelConfig& config) {
  config.num_token_types = reader.integer("type_vocab_size", {0, 1 << 10}, 1);
  const std::string positions = reader.string("position_embedding_type", "rope");
  if (positions != "rope")
    reader.fail(fmt::format("position_embedding_type: expected rope, got {}", positions));
  const std::string norm = reader.string("layer_norm_type", "layer_norm");
  if (norm != "layer_norm")
    reader.fail(fmt::format("layer_norm_type: expected layer_norm, got {}", norm));
  if (reader.boolean("logn_attention_scale", false))
    reader.fail("logn_attention_scale: expected false, got true");
}

constexpr NameMapEntry kJinaEntries[] = {
    {TensorRole::kTokenEmbedding, "embeddings.word_embeddings"},
    {TensorRole::kTokenTypeEmbedding, "embeddings.token_type_embeddings"},
    {TensorRole::kEmbeddingNorm, "emb_ln"},
    {TensorRole::kEmbeddingNorm, "embeddings.LayerNorm"},
    {TensorRole::kQkv, "encoder.layers.{}.mixer.Wqkv"},
    {TensorRole::kQ, "layers.{}.self_attn.q_proj"},
    {TensorRole::kK, "layers.{}.self_attn.k_proj"},
    {TensorRole::kV, "layers.{}.self_attn.v_proj"},
    {TensorRole::kO, "encoder.layers.{}.mixer.out_proj"},
    {TensorRole::kO, "layers.{}.self_attn.o_proj"},
    {TensorRole::kPostAttentionNorm, "encoder.layers.{}.norm1"},
    {TensorRole::kPostAttentionNorm, "layers.{}.post_attention_layernorm"},
    {TensorRole::kUp, "encoder.layers.{}.mlp.fc1"},
    {TensorRole::kUp, "layers.{}.mlp.fc1"},
    {TensorRole::kDown, "encoder.layers.{}.mlp.fc2"},
    {TensorRole::kDown, "layers.{}.mlp.fc2"},
    {TensorRole::kPostMlpNorm, "encoder.layers.{}.norm2"},
    {TensorRole::kPostMlpNorm, "layers.{}.post_mlp_layernorm"},
};
constexpr NamePrefix kJinaPrefixes[] = {{"roberta.", ""}, {"", ""}};
// The updates for its tasks are loaded as adapters (weights/adapters/task_adapters.h).
constexpr std::string_view kJinaIgnored[] = {"pooler.", "lm_head.", "position_ids", "inv_freq",
                                             ".parametrizations."};
constexpr KeyAlias kJinaAliases[] = {{"rms_norm_eps", "layer_norm_eps"},
                                     {"rope_theta", "rotary_emb_base"}};
constexpr std::string_view kJinaTypes[] = {"jina_embeddings_v3"};

void read_jina_v3(const ConfigReader& reader, ModelConfig& config) {
  config.num_token_types = reader.integer("type_vocab_size", {1, 1 << 10}, 1);
}

constexpr BlockStyle kGteBlock{.norm = NormKind::kLayer,
                               .norm_bias = true,
                               .input_norms = false,
                               .embedding_norm = true,
                               .final_norm = false,
                               .residual = ResidualStyle::kNormOfSum};

}  // namespace

const Family& gte_family() {
  static constexpr Family family{
      .name = "gte",
      .model_types = kGteTypes,
      .defaults = {.vocab_size = 250048,
                   .hidden_size = 768,
                   .intermediate_size = 3072,
                   .num_hidden_layers = 12,
                   .num_attention_heads = 12,
                   .max_position_embeddings = 8192,
                   .norm_eps = 1e-12,
                   .rope_theta = 160000.0,
                   .activation = "gelu"},
      .aliases = kGteAliases,
      .is_bidirectional = true,
      .classifier = ClassifierKind::kPooler,
      .default_pooling = PoolingKind::kCls,
      .block = kGteBlock,
      .qkv_bias = BiasRule::kAlways,
      .o_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .read_more = read_gte,
      .hf_names = {kGteEntries, kGtePrefixes, kGteIgnored},
  };
  return family;
}

const Family& jina_v3_family() {
  static constexpr Family family{
      .name = "jina_v3",
      .model_types = kJinaTypes,
      .defaults = {.vocab_size = 250002,
                   .hidden_size = 1024,
                   .intermediate_size = 4096,
                   .num_hidden_layers = 24,
                   .num_attention_heads = 16,
                   .max_position_embeddings = 8194,
                   .norm_eps = 1e-5,
                   .rope_theta = 20000.0,
                   .activation = "gelu"},
      .aliases = kJinaAliases,
      .is_bidirectional = true,
      .default_pooling = PoolingKind::kMean,
      .block = kGteBlock,
      .qkv_bias = BiasRule::kAlways,
      .o_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .gated_mlp = false,
      .read_more = read_jina_v3,
      .hf_names = {kJinaEntries, kJinaPrefixes, kJinaIgnored},
  };
  return family;
}

}  // namespace quire
