// DBRX: LayerNorms without biases, clipped queries, keys and values, and experts whose rows are
// stacked in one matrix. Half of its configuration is in nested objects.
#include "models/config_reader.h"
#include "models/expert_names.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr std::string_view kDbrxTypes[] = {"dbrx"};
constexpr std::string_view kNested[] = {"attn_config", "ffn_config"};
constexpr KeyAlias kDbrxAliases[] = {{"hidden_size", "d_model"},
                                     {"num_attention_heads", "n_heads"},
                                     {"num_key_value_heads", "kv_n_heads"},
                                     {"num_hidden_layers", "n_layers"},
                                     {"max_position_embeddings", "max_seq_len"},
                                     {"intermediate_size", "ffn_hidden_size"},
                                     {"num_experts", "moe_num_experts"},
                                     {"num_experts_per_tok", "moe_top_k"}};
constexpr ExpertRules kDbrxExperts{
    .router = {.num_experts = 4, .experts_per_token = 1, .weight = RouterWeight::kNormalized},
};

constexpr NameMapEntry kDbrxEntries[] = {
    {TensorRole::kTokenEmbedding, "wte"},
    {TensorRole::kFinalNorm, "norm_f"},
    {TensorRole::kLmHead, "lm_head"},
    {TensorRole::kInputNorm, "blocks.{}.norm_attn_norm.norm_1"},
    {TensorRole::kQkv, "blocks.{}.norm_attn_norm.attn.Wqkv"},
    {TensorRole::kO, "blocks.{}.norm_attn_norm.attn.out_proj"},
    {TensorRole::kPreMlpNorm, "blocks.{}.norm_attn_norm.norm_2"},
    {TensorRole::kRouter, "blocks.{}.ffn.router.layer"},
    {TensorRole::kExpertGate, "blocks.{}.ffn.experts.mlp.w1.{e}"},
    {TensorRole::kExpertUp, "blocks.{}.ffn.experts.mlp.v1.{e}"},
    {.role = TensorRole::kExpertDown,
     .pattern = "blocks.{}.ffn.experts.mlp.w2.{e}",
     .transposed = true},
};
constexpr NamePrefix kDbrxPrefixes[] = {{"transformer.", ""}, {"", ""}};
constexpr NameMapEntry kDbrxGgufEntries[] = {{TensorRole::kPreMlpNorm, "blk.{}.attn_output_norm"}};

void read_dbrx(const ConfigReader& reader, ModelConfig& config) {
  config.qkv_clip = reader.optional_positive("clip_qkv").value_or(0.0);
  constexpr std::string_view kNorm = "moe_normalize_expert_weights";
  const std::optional<double> norm = reader.positive_or_null(kNorm, 1.0);
  if (!norm) config.experts.spec.router.weight = RouterWeight::kScore;
  if (norm && *norm != 1.0)
    reader.fail(fmt::format("{}: expected null or 1, got {}", kNorm, *norm));
  const std::optional<ConfigReader> activation = reader.child("ffn_act_fn");
  const std::string name = activation ? activation->string("name", "silu") : "silu";
  if (name != "silu") reader.fail(fmt::format("ffn_act_fn: expected silu, got {}", name));
}

}  // namespace

const Family& dbrx_family() {
  static constexpr Family family{
      .name = "dbrx",
      .model_types = kDbrxTypes,
      .gguf_architecture = "dbrx",
      .defaults = {.vocab_size = 32000,
                   .hidden_size = 2048,
                   .intermediate_size = 3584,
                   .num_hidden_layers = 24,
                   .num_attention_heads = 16,
                   .num_key_value_heads = 1,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-5},
      .aliases = kDbrxAliases,
      .nested = kNested,
      .experts = &kDbrxExperts,
      .block = {.norm = NormKind::kLayer},
      .read_more = read_dbrx,
      .hf_names = {.entries = kDbrxEntries, .prefixes = kDbrxPrefixes},
      .gguf_names = {.entries = kDbrxGgufEntries,
                     .prefixes = kGgufPrefixes,
                     .ignored = kIgnoredTensors,
                     .base = &kGgufExpertNames},
  };
  return family;
}

}  // namespace quire
