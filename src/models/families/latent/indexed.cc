// DeepSeek-V3.2 and GLM-5: DeepSeek-V3's layers whose attention reads the index_topk tokens that an
// indexer finds best. No context longer than that is served, and in a shorter one every token is among
// them: the indexer's tensors are not read (docs/decisions/091-indexed-attention.md).
#include "models/config_fields.h"
#include "models/families/latent/latent_fields.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr std::string_view kIgnored[] = {"rotary_emb.inv_freq", ".self_attn.indexer."};
constexpr NameMap kNames{.prefixes = kLlamaPrefixes,
                         .ignored = kIgnored,
                         .base = &kLatentNames,
                         .ignores_later_layers = true};

constexpr std::string_view kDeepseekTypes[] = {"deepseek_v32"};
constexpr std::string_view kGlmTypes[] = {"glm_moe_dsa"};
constexpr LatentSpec kGlmLatent{
    .rank = 512, .rope_dim = 64, .nope_dim = 192, .value_dim = 256, .query_rank = 2048};

void read_indexed(const ConfigReader& reader, const LatentSpec& defaults, ModelConfig& config) {
  read_latent(reader, defaults, config);
  read_mlp_layer_types(reader, config);
  config.served_length = reader.integer("index_topk", {1, kMaxPositions}, 2048);
  if (const int64_t step = reader.integer("moe_layer_freq", {1, 4096}, 1); step != 1)
    reader.fail(fmt::format("moe_layer_freq: expected 1, got {}", step));
}

void read_deepseek(const ConfigReader& reader, ModelConfig& config) {
  read_indexed(reader, kDeepseekLatent, config);
}

void read_glm(const ConfigReader& reader, ModelConfig& config) {
  read_indexed(reader, kGlmLatent, config);
}

}  // namespace

const Family& deepseek_v32_family() {
  static constexpr Family family{
      .name = "deepseek_v32",
      .model_types = kDeepseekTypes,
      .defaults = {.vocab_size = 129280,
                   .hidden_size = 7168,
                   .intermediate_size = 18432,
                   .num_hidden_layers = 61,
                   .num_attention_heads = 128,
                   .head_dim = 64,
                   .max_position_embeddings = 163840},
      .aliases = kLatentAliases,
      .rope_style = RopeStyle::kInterleaved,
      .experts = &kDeepseekV3Experts,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_deepseek,
      .hf_names = kNames,
  };
  return family;
}

const Family& glm_moe_dsa_family() {
  static constexpr Family family{
      .name = "glm_moe_dsa",
      .model_types = kGlmTypes,
      .defaults = {.vocab_size = 154880,
                   .hidden_size = 6144,
                   .intermediate_size = 12288,
                   .num_hidden_layers = 78,
                   .num_attention_heads = 64,
                   .head_dim = 64,
                   .max_position_embeddings = 202752,
                   .norm_eps = 1e-5},
      .aliases = kLatentAliases,
      .rope_style = RopeStyle::kInterleaved,
      .experts = &kDeepseekV3Experts,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_glm,
      .hf_names = kNames,
  };
  return family;
}

}  // namespace quire
