// BERT and RoBERTa (XLM-R, CamemBERT): encoders with a LayerNorm after each sum. RoBERTa's position
// table begins with two rows for padding. Jina's second embeddings call themselves BERT, and have
// ALiBi for positions and a gate in the MLP.
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kBertEntries[] = {
    {TensorRole::kTokenEmbedding, "embeddings.word_embeddings"},
    {TensorRole::kPositionEmbedding, "embeddings.position_embeddings"},
    {TensorRole::kTokenTypeEmbedding, "embeddings.token_type_embeddings"},
    {TensorRole::kEmbeddingNorm, "embeddings.LayerNorm"},
    {TensorRole::kQ, "encoder.layer.{}.attention.self.query"},
    {TensorRole::kK, "encoder.layer.{}.attention.self.key"},
    {TensorRole::kV, "encoder.layer.{}.attention.self.value"},
    {TensorRole::kO, "encoder.layer.{}.attention.output.dense"},
    {TensorRole::kPostAttentionNorm, "encoder.layer.{}.attention.output.LayerNorm"},
    // Jina's MLP, whose gate and up projections have no biases.
    {.role = TensorRole::kGate,
     .pattern = "encoder.layer.{}.mlp.gated_layers",
     .rows = {0, 2},
     .has_bias = false},
    {.role = TensorRole::kUp,
     .pattern = "encoder.layer.{}.mlp.gated_layers",
     .rows = {1, 2},
     .has_bias = false},
    {TensorRole::kUp, "encoder.layer.{}.intermediate.dense"},
    {TensorRole::kDown, "encoder.layer.{}.output.dense"},
    {TensorRole::kDown, "encoder.layer.{}.mlp.wo"},
    {TensorRole::kPostMlpNorm, "encoder.layer.{}.output.LayerNorm"},
    {TensorRole::kPostMlpNorm, "encoder.layer.{}.mlp.layernorm"},
};
constexpr NamePrefix kBertPrefixes[] = {{"bert.", ""}, {"roberta.", ""}, {"", ""}};
// A pooler that is not used, heads for words, and a buffer of old checkpoints.
constexpr std::string_view kBertIgnored[] = {"pooler.", "cls.", "lm_head.", "position_ids"};

constexpr NameMapEntry kBertGgufEntries[] = {
    {TensorRole::kTokenTypeEmbedding, "token_types"},
    {TensorRole::kPostAttentionNorm, "blk.{}.attn_output_norm"},
    {TensorRole::kPostMlpNorm, "blk.{}.layer_output_norm"},
};
constexpr std::string_view kGgufIgnored[] = {"cls."};
constexpr NameMap kGgufBertNames{kBertGgufEntries, kGgufPrefixes, kGgufIgnored, 0.0f, &kGgufNames};
// Jina's gate and up projections are one matrix, as in its checkpoints.
constexpr NameMapEntry kJinaGgufEntries[] = {
    {.role = TensorRole::kGate, .pattern = "blk.{}.ffn_up", .rows = {0, 2}, .has_bias = false},
    {.role = TensorRole::kUp, .pattern = "blk.{}.ffn_up", .rows = {1, 2}, .has_bias = false},
};

constexpr std::string_view kBertTypes[] = {"bert"};
constexpr std::string_view kRobertaTypes[] = {"roberta", "xlm-roberta", "camembert"};
constexpr KeyAlias kBertAliases[] = {{"rms_norm_eps", "layer_norm_eps"}};

void read_jina(const ConfigReader& reader, ModelConfig& config) {
  config.positions = PositionKind::kAlibi;
  config.gated_mlp = true;
  const std::string kind = reader.string("feed_forward_type", "geglu");
  if (kind == "reglu") config.activation = Activation::kRelu;
  if (kind != "reglu" && kind != "geglu")
    reader.fail(fmt::format("feed_forward_type: expected geglu or reglu, got {}", kind));
}

void read_bert(const ConfigReader& reader, ModelConfig& config) {
  const std::string positions = reader.string("position_embedding_type", "absolute");
  const bool is_jina = positions == "alibi" && config.family->classifier == ClassifierKind::kPooler;
  if (is_jina) read_jina(reader, config);
  if (positions != "absolute" && !is_jina)
    reader.fail(fmt::format("position_embedding_type: expected absolute, got {}", positions));
  if (reader.boolean("is_decoder", false)) reader.fail("is_decoder: expected false, got true");
  config.num_token_types = reader.integer("type_vocab_size", {1, 1 << 10}, 2);
}

void read_jina_gguf(const ConfigReader& reader, ModelConfig& config) {
  read_jina(reader, config);
  config.num_token_types = reader.integer("type_vocab_size", {1, 1 << 10}, 2);
}

void read_roberta(const ConfigReader& reader, ModelConfig& config) {
  read_bert(reader, config);
  const int64_t first_row = config.family->first_position_row;
  const int64_t pad = reader.integer("pad_token_id", {}, first_row - 1);
  if (pad != first_row - 1)
    reader.fail(fmt::format("pad_token_id: expected {}, got {}", first_row - 1, pad));
  config.max_position_embeddings -= first_row;
  if (config.max_position_embeddings < 1) {
    reader.fail(fmt::format("max_position_embeddings: expected more than {}, got {}", first_row,
                            config.max_position_embeddings + first_row));
  }
}

constexpr FamilyDefaults kBertDefaults{.vocab_size = 30522,
                                       .hidden_size = 768,
                                       .intermediate_size = 3072,
                                       .num_hidden_layers = 12,
                                       .num_attention_heads = 12,
                                       .max_position_embeddings = 512,
                                       .norm_eps = 1e-12,
                                       .activation = "gelu",
                                       .tie_word_embeddings = true};

constexpr Family kBert{
    .name = "bert",
    .model_types = kBertTypes,
    .gguf_architecture = "bert",
    .defaults = kBertDefaults,
    .aliases = kBertAliases,
    .positions = PositionKind::kLearned,
    .is_bidirectional = true,
    .classifier = ClassifierKind::kPooler,
    .default_pooling = PoolingKind::kCls,
    .block = {.norm = NormKind::kLayer,
              .norm_bias = true,
              .input_norms = false,
              .embedding_norm = true,
              .final_norm = false,
              .residual = ResidualStyle::kNormOfSum},
    .qkv_bias = BiasRule::kAlways,
    .o_bias = BiasRule::kAlways,
    .mlp_bias = BiasRule::kAlways,
    .gated_mlp = false,
    .read_more = read_bert,
    .hf_names = {kBertEntries, kBertPrefixes, kBertIgnored},
    .gguf_names = kGgufBertNames,
};

}  // namespace

const Family& bert_family() { return kBert; }

// Its GGUF files look like BERT's, without the rows for padding.
const Family& roberta_family() {
  static const Family family = [] {
    Family roberta = kBert;
    roberta.name = "roberta";
    roberta.model_types = kRobertaTypes;
    roberta.gguf_architecture = {};
    roberta.defaults.vocab_size = 50265;
    roberta.defaults.max_position_embeddings = 514;
    roberta.first_position_row = 2;
    roberta.classifier = ClassifierKind::kDense;
    roberta.read_more = read_roberta;
    return roberta;
  }();
  return family;
}

// For GGUF files of jina-embeddings-v2; its checkpoints call themselves BERT.
const Family& jina_bert_family() {
  static const Family family = [] {
    Family jina = kBert;
    jina.name = "jina_bert_v2";
    jina.model_types = {};
    jina.gguf_architecture = "jina-bert-v2";
    jina.default_pooling = PoolingKind::kMean;
    jina.read_more = read_jina_gguf;
    jina.gguf_names = {kJinaGgufEntries, kGgufPrefixes, kGgufIgnored, 0.0f, &kGgufBertNames};
    return jina;
  }();
  return family;
}

}  // namespace quire
