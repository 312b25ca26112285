// Latent attention, a few first layers with an MLP, and then experts beside a shared MLP:
// DeepSeek-V2, DeepSeek-V3 and R1, Kimi K2, GLM-4.7-Flash, A.X K1 (a norm of the experts' output).
#include <algorithm>
#include <string>

#include "models/config_reader.h"
#include "models/families/latent/latent_fields.h"
#include "models/family.h"
#include "models/model_config.h"
#include "weights/gguf/gguf.h"

namespace quire {
namespace {

constexpr std::string_view kV2Types[] = {"deepseek_v2"};
constexpr ExpertRules kV2Experts{
    .router = {.num_experts = 64, .experts_per_token = 6},
    .intermediate_size = 1407,
    .layers = ExpertLayers::kAfterDense,
    .shared = SharedExperts::kCount,
    .shared_default = 2,
};

constexpr std::string_view kV3Types[] = {"deepseek_v3", "kimi_k2"};

constexpr std::string_view kFlashTypes[] = {"glm4_moe_lite"};
constexpr ExpertRules kFlashExperts{
    .router = {.num_experts = 64,
               .experts_per_token = 4,
               .score = RouterScore::kSigmoid,
               .min_sum = 1e-20f,
               .scale = 1.8f,
               .group_score = GroupScore::kSumOfTwo},
    .intermediate_size = 1536,
    .normalizes = true,
    .layers = ExpertLayers::kAfterDense,
    .first_layer = 1,
    .shared = SharedExperts::kCount,
    .shared_default = 1,
    .has_correction = true,
};

constexpr LatentSpec kFlashLatent{
    .rank = 512, .rope_dim = 64, .nope_dim = 192, .value_dim = 256, .query_rank = 768};

void read_common(const ConfigReader& reader, const LatentSpec& defaults, ModelConfig& config) {
  read_latent(reader, defaults, config);
  if (!reader.boolean("rope_interleave", true))
    reader.fail("rope_interleave: expected true, got false");
  if (const int64_t step = reader.integer("moe_layer_freq", {1, 4096}, 1); step != 1)
    reader.fail(fmt::format("moe_layer_freq: expected 1, got {}", step));
}

void read_v3(const ConfigReader& reader, ModelConfig& config) {
  read_common(reader, kDeepseekLatent, config);
}

// With `greedy`, groups are ignored. Files without topk_method tell by the number of groups.
void read_v2(const ConfigReader& reader, ModelConfig& config) {
  read_common(reader, kDeepseekLatent, config);
  RouterSpec& router = config.experts.spec.router;
  const std::string_view otherwise = router.num_groups > 1 ? "group_limited_greedy" : "greedy";
  const std::string method = reader.string("topk_method", otherwise);
  if (method == "greedy") {
    router.num_groups = router.groups_per_token = 1;
  } else if (method != "group_limited_greedy") {
    reader.fail(
        fmt::format("topk_method: expected greedy or group_limited_greedy, got {}", method));
  }
}

void read_flash(const ConfigReader& reader, ModelConfig& config) {
  read_common(reader, kFlashLatent, config);
  read_mlp_layer_types(reader, config);
}

constexpr std::string_view kAxTypes[] = {"axk1"};
// The first checkpoints have no correction. Layers without experts have a norm that is not used.
constexpr NameMapEntry kAxEntries[] = {
    {.role = TensorRole::kRouterCorrection,
     .pattern = "layers.{}.mlp.gate.e_score_correction_bias",
     .bare = true},
    {.role = TensorRole::kRouterCorrection, .pattern = "", .constant = 0.0f},
    {TensorRole::kPostMlpNorm, "layers.{}.post_mlp_layernorm"},
};
constexpr std::string_view kAxIgnored[] = {"rotary_emb.inv_freq", ".post_mlp_layernorm."};
constexpr ExpertRules kAxExperts = [] {
  ExpertRules rules = kDeepseekV3Experts;
  rules.router.num_experts = 192;
  rules.router.num_groups = 8;
  rules.router.groups_per_token = 4;
  rules.first_layer = 1;
  return rules;
}();

void read_ax(const ConfigReader& reader, ModelConfig& config) {
  read_common(reader, kDeepseekLatent, config);
  read_mlp_layer_types(reader, config);
  config.norms_experts = true;
}

// DeepSeek-V3 and similar models call themselves deepseek2, too, and choose experts by sigmoids.
bool is_v3(const GgufFile& file) {
  const GgufValue* gate = file.find("deepseek2.expert_gating_func");
  if (gate != nullptr) return gate->as_int() == 2;
  return std::any_of(file.tensors().begin(), file.tensors().end(), [](const RawTensor& tensor) {
    return tensor.name.find("exp_probs_b") != std::string::npos;
  });
}

}  // namespace

const Family& deepseek_v2_family() {
  static constexpr Family family{
      .name = "deepseek_v2",
      .model_types = kV2Types,
      .gguf_architecture = "deepseek2",
      .defaults = {.vocab_size = 102400,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .head_dim = 64,
                   .max_position_embeddings = 2048},
      .aliases = kDeepseekAliases,
      .rope_style = RopeStyle::kInterleaved,
      .experts = &kV2Experts,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .read_more = read_v2,
      .hf_names = kLatentNames,
      .gguf_names = kGgufLatentNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

const Family& deepseek_v3_family() {
  static constexpr Family family{
      .name = "deepseek_v3",
      .model_types = kV3Types,
      .gguf_architecture = "deepseek2",
      .defaults = {.vocab_size = 129280,
                   .hidden_size = 7168,
                   .intermediate_size = 18432,
                   .num_hidden_layers = 61,
                   .num_attention_heads = 128,
                   .head_dim = 64,
                   .max_position_embeddings = 4096},
      .aliases = kDeepseekAliases,
      .rope_style = RopeStyle::kInterleaved,
      .experts = &kDeepseekV3Experts,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_v3,
      .hf_names = kLatentNames,
      .gguf_names = kGgufLatentNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
      .owns_gguf = is_v3,
  };
  return family;
}

const Family& axk1_family() {
  static constexpr Family family{
      .name = "axk1",
      .model_types = kAxTypes,
      .defaults = {.vocab_size = 163840,
                   .hidden_size = 7168,
                   .intermediate_size = 18432,
                   .num_hidden_layers = 61,
                   .num_attention_heads = 64,
                   .head_dim = 64,
                   .max_position_embeddings = 32768},
      .aliases = kDeepseekAliases,
      .rope_style = RopeStyle::kInterleaved,
      .experts = &kAxExperts,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_ax,
      .hf_names = {.entries = kAxEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kAxIgnored,
                   .base = &kLatentNames,
                   .ignores_later_layers = true},
  };
  return family;
}

const Family& glm4_moe_lite_family() {
  static constexpr Family family{
      .name = "glm4_moe_lite",
      .model_types = kFlashTypes,
      // Its GGUF files are read as DeepSeek-V3's, which differ only in defaults.
      .gguf_architecture = "deepseek2",
      .defaults = {.vocab_size = 154880,
                   .hidden_size = 2048,
                   .intermediate_size = 10240,
                   .num_hidden_layers = 47,
                   .num_attention_heads = 20,
                   .head_dim = 64,
                   .max_position_embeddings = 202752,
                   .norm_eps = 1e-5},
      .aliases = kDeepseekAliases,
      .rope_style = RopeStyle::kInterleaved,
      .experts = &kFlashExperts,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_flash,
      .hf_names = kLatentNames,
      .gguf_names = kGgufLatentNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

}  // namespace quire
