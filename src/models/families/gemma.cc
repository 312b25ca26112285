// Gemma, Gemma 2 (soft caps), VaultGemma (Gemma 2 without norms of outputs) and Gemma 3 text (norms
// of queries and keys, another rope for layers with a window). Norms multiply by 1 + w.
#include <cmath>

#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kGemmaNames[] = {
    {TensorRole::kPostAttentionNorm, "layers.{}.post_attention_layernorm"},
    {TensorRole::kPreMlpNorm, "layers.{}.pre_feedforward_layernorm"},
    {TensorRole::kPostMlpNorm, "layers.{}.post_feedforward_layernorm"},
};

constexpr std::string_view kGemmaTypes[] = {"gemma"};
constexpr std::string_view kGemma2Types[] = {"gemma2"};
constexpr std::string_view kVaultTypes[] = {"vaultgemma"};
constexpr std::string_view kGemma3Types[] = {"gemma3_text", "gemma3"};
constexpr KeyAlias kGemmaAliases[] = {{"hidden_act", "hidden_activation"}};

// GGUF files of embedders may contain the layers behind pooling.
constexpr NameMapEntry kDenseNames[] = {{TensorRole::kSentenceDense, "dense_{}"}};

// Hugging Face's checkpoints store norm weights less 1; GGUF files store them whole.
constexpr NameMap kHf{kGemmaNames, kLlamaPrefixes, kIgnoredTensors, 1.0f, &kLlamaNames};
constexpr NameMap kPlainHf{{}, kLlamaPrefixes, kIgnoredTensors, 1.0f, &kLlamaNames};

// The first checkpoints say gelu but were trained with the tanh approximation.
void read_gemma(const ConfigReader& /*reader*/, ModelConfig& config) {
  config.activation = Activation::kGeluTanh;
}

void read_gemma2(const ConfigReader& reader, ModelConfig& config) {
  config.attention_scale = 1.0 / std::sqrt(reader.positive("query_pre_attn_scalar", 256.0));
  // null means no cap; a missing key means the family's default.
  config.attn_logit_softcapping = reader.positive_or_null("attn_logit_softcapping", 50.0);
  config.final_logit_softcapping = reader.positive_or_null("final_logit_softcapping", 30.0);
}

void read_gemma3_layers(const ConfigReader& reader, ModelConfig& config) {
  config.attention_scale = 1.0 / std::sqrt(reader.positive("query_pre_attn_scalar", 256.0));
  config.final_logit_softcapping = reader.optional_positive("final_logit_softcapping");
  if (!reader.boolean("use_bidirectional_attention", config.is_bidirectional)) return;
  // An embedder (EmbeddingGemma): half of a window lies on each side of a token.
  config.is_bidirectional = true;
  for (int32_t& window : config.layer_windows) window = window == 0 ? 0 : window / 2 + 1;
}

}  // namespace

const Family& gemma_family() {
  static constexpr Family family{
      .name = "gemma",
      .model_types = kGemmaTypes,
      .gguf_architecture = "gemma",
      .defaults = {.vocab_size = 256000,
                   .hidden_size = 3072,
                   .intermediate_size = 24576,
                   .num_hidden_layers = 28,
                   .num_attention_heads = 16,
                   .num_key_value_heads = 16,
                   .head_dim = 256,
                   .max_position_embeddings = 8192,
                   .activation = "gelu_pytorch_tanh",
                   .tie_word_embeddings = true},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .scaled_embedding = true,
      .read_more = read_gemma,
      .hf_names = kPlainHf,
      .gguf_names = kGgufNames,
  };
  return family;
}

const Family& vaultgemma_family() {
  static const Family family = [] {
    Family vault = gemma2_family();
    vault.name = "vaultgemma";
    vault.model_types = kVaultTypes;
    vault.gguf_architecture = {};
    vault.block.output_norms = false;
    return vault;
  }();
  return family;
}

const Family& gemma2_family() {
  static constexpr Family family{
      .name = "gemma2",
      .model_types = kGemma2Types,
      .gguf_architecture = "gemma2",
      .defaults = {.vocab_size = 256000,
                   .hidden_size = 2304,
                   .intermediate_size = 9216,
                   .num_hidden_layers = 26,
                   .num_attention_heads = 8,
                   .num_key_value_heads = 4,
                   .head_dim = 256,
                   .max_position_embeddings = 8192,
                   .sliding_window = 4096,
                   .activation = "gelu_pytorch_tanh",
                   .tie_word_embeddings = true},
      .aliases = kGemmaAliases,
      .window_rule = WindowRule::kPattern,
      .window_pattern = 2,
      .block = {.output_norms = true},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .scaled_embedding = true,
      .read_more = read_gemma2,
      .hf_names = kHf,
      .gguf_names = kGgufNames,
  };
  return family;
}

// For EmbeddingGemma's GGUF files; its folders are Gemma 3's with use_bidirectional_attention.
const Family& gemma_embed_family() {
  static const Family family = [] {
    Family embedder = gemma3_family();
    embedder.name = "gemma_embedding";
    embedder.model_types = {};
    embedder.gguf_architecture = "gemma-embedding";
    embedder.is_bidirectional = true;
    embedder.default_pooling = PoolingKind::kMean;
    embedder.gguf_names = {kDenseNames, kGgufNames.prefixes, kGgufNames.ignored, 0.0f, &kGgufNames};
    return embedder;
  }();
  return family;
}

const Family& gemma3_family() {
  static constexpr Family family{
      .name = "gemma3_text",
      .model_types = kGemma3Types,
      .gguf_architecture = "gemma3",
      .defaults = {.vocab_size = 262208,
                   .hidden_size = 2304,
                   .intermediate_size = 9216,
                   .num_hidden_layers = 26,
                   .num_attention_heads = 8,
                   .num_key_value_heads = 4,
                   .head_dim = 256,
                   .max_position_embeddings = 131072,
                   .sliding_window = 4096,
                   .rope_theta = 1e6,
                   .activation = "gelu_pytorch_tanh",
                   .tie_word_embeddings = true},
      .aliases = kGemmaAliases,
      .window_rule = WindowRule::kPattern,
      .window_pattern = 6,
      .has_local_rope = true,
      .block = {.output_norms = true},
      .qk_norm = QkNorm::kHead,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .scaled_embedding = true,
      .read_more = read_gemma3_layers,
      .hf_names = kHf,
      .gguf_names = kGgufNames,
  };
  return family;
}

}  // namespace quire
