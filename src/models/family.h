// A Family describes a model family as data: the keys of its configuration, the structure of its
// layers, the tensor names of its checkpoints. Each family or group of similar families has one
// file (families/llama.cc, …) and one line in registry.cc (docs/recipes/add-model.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "models/expert_rules.h"
#include "nn/decoder_spec.h"
#include "weights/names/name_map.h"

namespace quire {

struct ModelConfig;
class ConfigReader;
class GgufFile;

// Values of keys that the family's configurations may lack; 0 or empty: the key is required, or
// derived where a rule says so.
struct FamilyDefaults {
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;  // 0: intermediate_ratio * hidden_size
  int64_t intermediate_ratio = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;  // 0: num_attention_heads
  int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  int64_t max_position_embeddings = 0;
  int64_t sliding_window = 0;
  double norm_eps = 1e-6;
  double rope_theta = 10000.0;
  double local_rope_theta = 10000.0;  // with Family::has_local_rope
  double partial_rotary_factor = 1.0;
  bool rope_truncates = true;  // YaRN's truncate
  std::string_view activation = "silu";
  bool tie_word_embeddings = false;
  bool attention_bias = false;
};

// Which layers see a sliding window.
enum class WindowRule : uint8_t {
  kNone,
  kAll,          // every layer, when sliding_window is set (Mistral, Phi-3)
  kAllWhenUsed,  // every layer, when use_sliding_window is set, too (Qwen3-MoE)
  kFromLayer,    // layers from max_window_layers on, when use_sliding_window is set (Qwen)
  kPattern,      // every window_pattern-th layer is full, the others have a window (Gemma)
};

enum class BiasRule : uint8_t { kNever, kAlways, kConfig };

// How a model represents the order of tokens.
enum class PositionKind : uint8_t { kRope, kLearned, kAlibi, kNone };

// The layers between a pooled hidden state and the scores of labels.
enum class ClassifierKind : uint8_t {
  kLinear,       // "score" or "classifier" alone
  kPooler,       // BERT: pooler.dense and tanh before "classifier"
  kDense,        // RoBERTa: classifier.dense and tanh before classifier.out_proj
  kNormedDense,  // ModernBERT: head.dense, gelu and head.norm before "classifier", also per token
};

// Another name for a key, as in transformers' attribute_map.
struct KeyAlias {
  std::string_view key;    // the key that the shared reader reads
  std::string_view alias;  // its name in this family's configurations
};

struct Family {
  std::string_view name;
  std::span<const std::string_view> model_types = {};  // of config.json
  std::string_view gguf_architecture = {};             // empty: the family has none
  std::string_view gguf_moe_architecture = {};         // of models with experts, if it is another

  FamilyDefaults defaults = {};
  std::span<const KeyAlias> aliases = {};
  // Nested objects whose keys are read as if they were at the top level.
  std::span<const std::string_view> nested = {};
  // Keys of lists or texts with one entry per layer, for configurations without num_hidden_layers.
  std::span<const std::string_view> layer_lists = {};
  WindowRule window_rule = WindowRule::kNone;
  int32_t window_pattern = 0;
  PositionKind positions = PositionKind::kRope;
  RopeStyle rope_style = RopeStyle::kNeox;
  bool rotates_backwards = false;     // RopeConfig::backwards
  bool has_local_rope = false;        // layers with a window rotate by rope_local_base_freq
  bool has_sections_in_turn = false;  // default of RopeConfig::sections_in_turn
  int64_t first_position_row = 0;     // of learned positions, see DecoderSpec
  bool is_bidirectional = false;  // an encoder: tokens see those behind them, and there is no head
  bool reads_source = false;      // a decoder with cross-attention to an encoder's output
  // The encoder of a decoder whose source is a text: the same configuration is read as that of this
  // family, which the registry does not list. Null: the source is no text.
  const Family& (*text_encoder)() = nullptr;
  ClassifierKind classifier = ClassifierKind::kLinear;
  PoolingKind default_pooling = PoolingKind::kLast;  // if no file says it

  // Layers may differ in their numbers of heads and in the width of their MLP.
  bool has_own_heads = false;
  bool has_sinks = false;                // AttentionSpec::has_sinks
  const ExpertRules* experts = nullptr;  // null: no layer has experts

  BlockStyle block = {};
  std::optional<QkNorm> qk_norm = {};
  bool qk_norm_after_rope = false;
  BiasRule qkv_bias = BiasRule::kNever;  // kConfig: attention_bias
  BiasRule o_bias = BiasRule::kNever;    // kConfig: attention_bias
  BiasRule mlp_bias = BiasRule::kNever;  // kConfig: mlp_bias
  bool head_bias = false;
  bool gated_mlp = true;
  bool scaled_embedding = false;  // embeddings are multiplied by sqrt(hidden_size)
  // Reads keys that no other family has, and adjusts the fields read before; may be null.
  void (*read_more)(const ConfigReader& reader, ModelConfig& config) = nullptr;

  // Reads the configuration of a whole model whose text part is this one; may be null.
  void (*read_whole)(const ConfigReader& top, ModelConfig& config) = nullptr;

  NameMap hf_names = {};
  NameMap gguf_names = {};
  RopeStyle gguf_rope_style = RopeStyle::kNeox;
  std::string_view gguf_activation = {};  // of GGUF files, if it is not that of the defaults
  // Returns whether a file is this family's, for an architecture that several families share. The
  // family whose owns_gguf is null has all files that no other family claims.
  bool (*owns_gguf)(const GgufFile& file) = nullptr;
};

const Family& llama_family();
const Family& mistral_family();
const Family& ministral3_family();
const Family& qwen2_family();
const Family& qwen3_family();
const Family& qwen2_moe_family();
const Family& qwen3_moe_family();
const Family& mixtral_family();
const Family& minimax_m2_family();
const Family& phimoe_family();
const Family& glm4_moe_family();
const Family& ernie_moe_family();
const Family& gpt_oss_family();
const Family& granite_moe_family();
const Family& olmoe_family();
const Family& phi3_family();
const Family& gemma2_family();
const Family& gemma3_family();
const Family& gemma_embed_family();
const Family& gpt2_family();
const Family& granite_family();
const Family& minicpm_family();
const Family& smollm3_family();
const Family& seed_oss_family();
const Family& hunyuan_family();
const Family& arcee_family();
const Family& ernie_family();
const Family& olmo2_family();
const Family& olmo3_family();
const Family& exaone4_family();
const Family& glm_family();
const Family& glm4_family();
const Family& cohere_family();
const Family& cohere2_family();
const Family& stablelm_family();
const Family& phi_family();
const Family& starcoder2_family();
const Family& gpt_neox_family();
const Family& nemotron_family();
const Family& apertus_family();
const Family& opt_family();
const Family& falcon_family();
const Family& bloom_family();
const Family& mpt_family();
const Family& deepseek_v2_family();
const Family& deepseek_v3_family();
const Family& glm4_moe_lite_family();
const Family& minicpm3_family();
const Family& bert_family();
const Family& roberta_family();
const Family& jina_bert_family();
const Family& nomic_bert_family();
const Family& distilbert_family();
const Family& modernbert_family();
const Family& mpnet_family();
const Family& gte_family();
const Family& jina_v3_family();
const Family& lfm2_family();
const Family& lfm2_moe_family();
const Family& qwen3_next_family();
const Family& qwen3_5_family();
const Family& qwen3_5_moe_family();
const Family& granite_hybrid_family();
const Family& bamba_family();
const Family& falcon_h1_family();
const Family& nemotron_h_family();
const Family& mamba_family();
const Family& falcon_mamba_family();
const Family& mamba2_family();
const Family& jamba_family();
const Family& kimi_linear_family();
const Family& zamba2_family();
const Family& qwen2_vl_family();
const Family& qwen3_vl_family();
const Family& gemma_family();
const Family& vaultgemma_family();
const Family& gemma3n_family();
const Family& gemma4_family();
const Family& helium_family();
const Family& internlm3_family();
const Family& cwm_family();
const Family& jais2_family();
const Family& dots1_family();
const Family& solar_open_family();
const Family& exaone_moe_family();
const Family& hy_v3_family();
const Family& afmoe_family();
const Family& hunyuan_moe_family();
const Family& qwen3_vl_moe_family();
const Family& llama4_family();
const Family& baichuan_family();
const Family& gptj_family();
const Family& codegen_family();
const Family& gpt_bigcode_family();
const Family& gpt_neo_family();
const Family& openai_gpt_family();
const Family& granite_swa_family();
const Family& biogpt_family();
const Family& olmo_family();
const Family& flex_olmo_family();
const Family& internlm_family();
const Family& internlm2_family();
const Family& xverse_family();
const Family& orion_family();
const Family& qwen_family();
const Family& chatglm_family();
const Family& exaone_family();
const Family& hyperclovax_family();
const Family& nanochat_family();
const Family& youtu_family();
const Family& mellum_family();
const Family& bailing_moe_family();
const Family& bailing_moe_v2_family();
const Family& deepseek_family();
const Family& deepseek_v32_family();
const Family& glm_moe_dsa_family();
const Family& deci_family();
const Family& openelm_family();
const Family& cohere2_moe_family();
const Family& dbrx_family();
const Family& aria_text_family();
const Family& granitemoe_swa_family();
const Family& flint_family();
const Family& axk1_family();
const Family& bitnet_family();
const Family& persimmon_family();
const Family& gemma4_unified_family();
const Family& whisper_family();
const Family& mllama_family();
const Family& t5_family();
const Family& bart_family();

// Returns all families, in the order in which error messages list them.
std::span<const Family* const> all_families();
// Both return nullptr if no family matches.
const Family* find_family(std::string_view model_type);
const Family* find_gguf_family(const GgufFile& file, std::string_view architecture);
std::string known_model_types();         // "llama, mistral, …"
std::string known_gguf_architectures();  // "llama, qwen2, …"

}  // namespace quire
