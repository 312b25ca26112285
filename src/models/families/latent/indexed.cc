// DeepSeek-V3.2 and GLM-5: DeepSeek-V3's layers, whose attention reads only the index_topk tokens
// that an indexer chooses (kernels/api/sparse_attention.h).
#include <algorithm>

#include "models/config_fields.h"
#include "models/families/latent/latent_fields.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

// If no sequence is longer than index_topk, the indexers are not loaded.
constexpr std::string_view kIndexedIgnored[] = {"rotary_emb.inv_freq", ".self_attn.indexer."};
constexpr NameMapEntry kIndexedEntries[] = {
    {TensorRole::kIndexQuery, "layers.{}.self_attn.indexer.wq_b"},
    {TensorRole::kIndexKey, "layers.{}.self_attn.indexer.wk"},
    {TensorRole::kIndexKeyNorm, "layers.{}.self_attn.indexer.k_norm"},
    {TensorRole::kIndexHeadWeights, "layers.{}.self_attn.indexer.weights_proj"},
};
constexpr NameMap kIndexedNames{.entries = kIndexedEntries,
                                .prefixes = kLlamaPrefixes,
                                .ignored = kIndexedIgnored,
                                .base = &kLatentNames,
                                .ignores_later_layers = true};

constexpr std::string_view kDeepseekTypes[] = {"deepseek_v32"};
constexpr std::string_view kGlmTypes[] = {"glm_moe_dsa"};
constexpr LatentSpec kGlmLatent{
    .rank = 512, .rope_dim = 64, .nope_dim = 192, .value_dim = 256, .query_rank = 2048};

void read_indexer(const ConfigReader& reader, const IndexSpec& defaults, ModelConfig& config) {
  const LatentSpec& latent = config.latent;
  IndexSpec& index = config.index;
  const auto field = [&](std::string_view key, int64_t max, int32_t otherwise) {
    return static_cast<int32_t>(reader.integer(key, {1, max}, otherwise));
  };
  index.top_k = field("index_topk", kMaxPositions, 2048);
  index.num_heads = field("index_n_heads", 1024, defaults.num_heads);
  index.head_dim = field("index_head_dim", kMaxAttentionHeadDim, 128);
  const bool interleaved =
      reader.boolean("indexer_rope_interleave", defaults.rope_style == RopeStyle::kInterleaved);
  index.rope_style = interleaved ? RopeStyle::kInterleaved : RopeStyle::kNeox;
  if (index.head_dim % 2 != 0 || index.head_dim < latent.rope_dim) {
    reader.fail(fmt::format("index_head_dim: expected an even number of at least {}, got {}",
                            latent.rope_dim, index.head_dim));
  }
  if (latent.query_rank == 0)
    reader.fail("q_lora_rank: expected a number, which the indexer's queries are made of");
}

// Returns the kinds of layers that the configuration lists: full or F layers have an indexer,
// shared or S layers do not.
std::vector<std::string> index_kinds(const ConfigReader& reader) {
  std::vector<std::string> kinds = reader.strings("indexer_types");
  if (!kinds.empty() || !reader.has("index_topk_pattern")) return kinds;
  if (!reader.is_string("index_topk_pattern")) return reader.strings("index_topk_pattern");
  for (const char kind : reader.string("index_topk_pattern", "")) kinds.emplace_back(1, kind);
  return kinds;
}

void read_index_layers(const ConfigReader& reader, ModelConfig& config) {
  const int64_t num_layers = config.num_hidden_layers;
  const std::vector<std::string> kinds = index_kinds(reader);
  const int64_t step = reader.integer("index_topk_freq", {1, 4096}, 1);
  const int64_t first = reader.integer("index_skip_topk_offset", {0, 4096}, 2);
  for (int64_t i = 0; kinds.empty() && i < num_layers; ++i)
    config.index_layers.push_back(std::max<int64_t>(i - first + 1, 0) % step == 0);
  for (const std::string& kind : kinds) {
    const bool chooses = kind == "full" || kind == "F";
    if (!chooses && kind != "shared" && kind != "S")
      reader.fail(fmt::format("indexer_types: expected full or shared, got {}", kind));
    config.index_layers.push_back(chooses);
  }
  // The list may be longer than the model: layers beyond the last one predict further tokens.
  if (std::ssize(config.index_layers) < num_layers || !config.index_layers.front()) {
    reader.fail(fmt::format("indexer_types: expected {} kinds, the first full, got {}", num_layers,
                            fmt::join(kinds, ", ")));
  }
  config.index_layers.resize(static_cast<size_t>(num_layers), true);
}

void read_sparse(const ConfigReader& reader, const LatentSpec& latent, const IndexSpec& index,
                 ModelConfig& config) {
  read_latent(reader, latent, config);
  read_mlp_layer_types(reader, config);
  read_indexer(reader, index, config);
  if (const int64_t step = reader.integer("moe_layer_freq", {1, 4096}, 1); step != 1)
    reader.fail(fmt::format("moe_layer_freq: expected 1, got {}", step));
}

void read_deepseek(const ConfigReader& reader, ModelConfig& config) {
  read_sparse(reader, kDeepseekLatent, {.num_heads = 64, .rope_style = RopeStyle::kNeox}, config);
}

void read_glm(const ConfigReader& reader, ModelConfig& config) {
  read_sparse(reader, kGlmLatent, {.num_heads = 32, .rope_style = RopeStyle::kInterleaved}, config);
  read_index_layers(reader, config);
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
      .aliases = kDeepseekAliases,
      .rope_style = RopeStyle::kInterleaved,
      .experts = &kDeepseekV3Experts,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_deepseek,
      .hf_names = kIndexedNames,
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
      .aliases = kDeepseekAliases,
      .rope_style = RopeStyle::kInterleaved,
      .experts = &kDeepseekV3Experts,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_glm,
      .hf_names = kIndexedNames,
  };
  return family;
}

}  // namespace quire
