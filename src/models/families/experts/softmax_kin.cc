// Attention of dense models with experts whose weights are probabilities of those chosen: Hunyuan
// (norms after the rotation, a shared MLP) and the text model of Qwen3-VL with experts.
#include "models/expert_names.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr std::string_view kHunyuanTypes[] = {"hunyuan_v1_moe"};
// Experts and the shared MLP are as wide as intermediate_size; moe_intermediate_size says it again,
// layer by layer.
constexpr KeyAlias kHunyuanAliases[] = {{"num_experts_per_tok", "moe_topk"},
                                        {"moe_intermediate_size", "intermediate_size"},
                                        {"shared_expert_intermediate_size", "intermediate_size"}};
constexpr ExpertRules kHunyuanExperts{
    .router = {.num_experts = 1, .experts_per_token = 1, .weight = RouterWeight::kNormalized},
    .shared = SharedExperts::kSize,
};
constexpr NameMapEntry kHunyuanEntries[] = {
    {TensorRole::kQNorm, "layers.{}.self_attn.query_layernorm"},
    {TensorRole::kKNorm, "layers.{}.self_attn.key_layernorm"},
    {TensorRole::kRouter, "layers.{}.mlp.gate.wg"},
    {TensorRole::kSharedGate, "layers.{}.mlp.shared_mlp.gate_proj"},
    {TensorRole::kSharedUp, "layers.{}.mlp.shared_mlp.up_proj"},
    {TensorRole::kSharedDown, "layers.{}.mlp.shared_mlp.down_proj"},
};

constexpr std::string_view kVlTypes[] = {"qwen3_vl_moe_text", "qwen3_vl_moe"};
constexpr KeyAlias kVlAliases[] = {{"num_experts", "num_local_experts"}};
constexpr std::string_view kVlIgnored[] = {"rotary_emb.inv_freq", "visual."};
constexpr std::string_view kGateUp = "layers.{}.mlp.experts.gate_up_proj.{e}";
// Experts are stored with their inputs first.
constexpr NameMapEntry kVlEntries[] = {
    {.role = TensorRole::kExpertGate,
     .pattern = kGateUp,
     .transposed = true,
     .rows = {.part = 0, .parts = 2}},
    {.role = TensorRole::kExpertUp,
     .pattern = kGateUp,
     .transposed = true,
     .rows = {.part = 1, .parts = 2}},
    {.role = TensorRole::kExpertDown,
     .pattern = "layers.{}.mlp.experts.down_proj.{e}",
     .transposed = true},
};
constexpr ExpertRules kVlExperts{
    .router = {.num_experts = 60, .experts_per_token = 4, .weight = RouterWeight::kNormalized},
    .intermediate_size = 1408,
    .layers = ExpertLayers::kSparseStep,
};

}  // namespace

const Family& hunyuan_moe_family() {
  static constexpr Family family{
      .name = "hunyuan_v1_moe",
      .model_types = kHunyuanTypes,
      .gguf_architecture = "hunyuan-moe",
      .defaults = {.vocab_size = 290943,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-5},
      .aliases = kHunyuanAliases,
      .experts = &kHunyuanExperts,
      .qk_norm = QkNorm::kHead,
      .qk_norm_after_rope = true,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .hf_names = {.entries = kHunyuanEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kIgnoredTensors,
                   .base = &kMlpExpertNames},
      .gguf_names = kGgufExpertNames,
  };
  return family;
}

const Family& qwen3_vl_moe_family() {
  static constexpr Family family{
      .name = "qwen3_vl_moe",
      .model_types = kVlTypes,
      .gguf_architecture = "qwen3vlmoe",
      .defaults = {.vocab_size = 151936,
                   .hidden_size = 2048,
                   .intermediate_size = 5632,
                   .num_hidden_layers = 24,
                   .num_attention_heads = 16,
                   .num_key_value_heads = 16,
                   .max_position_embeddings = 128000,
                   .rope_theta = 5e6},
      .aliases = kVlAliases,
      .has_sections_in_turn = true,
      .experts = &kVlExperts,
      .qk_norm = QkNorm::kHead,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .hf_names = {.entries = kVlEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kVlIgnored,
                   .base = &kMlpExpertNames},
      .gguf_names = kGgufExpertNames,
  };
  return family;
}

}  // namespace quire
