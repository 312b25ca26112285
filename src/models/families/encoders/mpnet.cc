// MPNet: BERT without token types, with biases of scores by distance, which all layers share. Its
// position table begins with two rows for padding.
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kMpnetEntries[] = {
    {TensorRole::kTokenEmbedding, "embeddings.word_embeddings"},
    {TensorRole::kPositionEmbedding, "embeddings.position_embeddings"},
    {TensorRole::kEmbeddingNorm, "embeddings.LayerNorm"},
    {TensorRole::kRelativeBias, "encoder.relative_attention_bias"},
    {TensorRole::kQ, "encoder.layer.{}.attention.attn.q"},
    {TensorRole::kK, "encoder.layer.{}.attention.attn.k"},
    {TensorRole::kV, "encoder.layer.{}.attention.attn.v"},
    {TensorRole::kO, "encoder.layer.{}.attention.attn.o"},
    {TensorRole::kPostAttentionNorm, "encoder.layer.{}.attention.LayerNorm"},
    {TensorRole::kUp, "encoder.layer.{}.intermediate.dense"},
    {TensorRole::kDown, "encoder.layer.{}.output.dense"},
    {TensorRole::kPostMlpNorm, "encoder.layer.{}.output.LayerNorm"},
};
constexpr NamePrefix kMpnetPrefixes[] = {{"mpnet.", ""}, {"", ""}};
constexpr std::string_view kMpnetIgnored[] = {"pooler.", "lm_head.", "position_ids"};
constexpr std::string_view kMpnetTypes[] = {"mpnet"};
constexpr KeyAlias kMpnetAliases[] = {{"rms_norm_eps", "layer_norm_eps"}};

void read_mpnet(const ConfigReader& reader, ModelConfig& config) {
  const int64_t buckets = reader.integer("relative_attention_num_buckets", {4, 1 << 10}, 32);
  if (buckets % 4 != 0) {
    reader.fail(
        fmt::format("relative_attention_num_buckets: expected a multiple of 4, got {}", buckets));
  }
  config.relative_bias.num_buckets = static_cast<int32_t>(buckets);
  config.max_position_embeddings -= config.family->first_position_row;
  if (config.max_position_embeddings < 1)
    reader.fail("max_position_embeddings: expected more than 2, those of padding");
}

}  // namespace

const Family& mpnet_family() {
  static constexpr Family family{
      .name = "mpnet",
      .model_types = kMpnetTypes,
      .defaults = {.vocab_size = 30527,
                   .hidden_size = 768,
                   .intermediate_size = 3072,
                   .num_hidden_layers = 12,
                   .num_attention_heads = 12,
                   .max_position_embeddings = 512,
                   .norm_eps = 1e-12,
                   .activation = "gelu"},
      .aliases = kMpnetAliases,
      .positions = PositionKind::kLearned,
      .first_position_row = 2,
      .is_bidirectional = true,
      .classifier = ClassifierKind::kDense,
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
      .read_more = read_mpnet,
      .hf_names = {kMpnetEntries, kMpnetPrefixes, kMpnetIgnored},
  };
  return family;
}

}  // namespace quire
