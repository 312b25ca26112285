// Attention of dense models, with experts whose weights are normalized over the chosen experts:
// Hunyuan (norms after the rotation, a shared MLP), the text models of Qwen3-VL with experts and of
// Aria, Flint (sigmoids, windows, sinks).
#include "models/config_reader.h"
#include "models/expert_names.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr std::string_view kHunyuanTypes[] = {"hunyuan_v1_moe"};
// Experts and the shared MLP are intermediate_size wide; moe_intermediate_size repeats that for
// each layer.
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
constexpr std::string_view kSoftmaxKinGateUp = "layers.{}.mlp.experts.gate_up_proj.{e}";
// Experts are stored with their inputs first.
constexpr NameMapEntry kVlEntries[] = {
    {.role = TensorRole::kExpertGate,
     .pattern = kSoftmaxKinGateUp,
     .transposed = true,
     .rows = {.part = 0, .parts = 2}},
    {.role = TensorRole::kExpertUp,
     .pattern = kSoftmaxKinGateUp,
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

constexpr std::string_view kAriaTypes[] = {"aria_text"};
constexpr KeyAlias kAriaAliases[] = {{"num_experts", "moe_num_experts"},
                                     {"num_experts_per_tok", "moe_topk"},
                                     {"num_shared_experts", "moe_num_shared_experts"}};
constexpr ExpertRules kAriaExperts{
    .router = {.num_experts = 8, .experts_per_token = 2, .weight = RouterWeight::kSoftmaxOfChosen},
    .shared = SharedExperts::kCount,
    .shared_default = 2,
};
constexpr std::string_view kAriaGateUp = "layers.{}.mlp.experts.fc1.{e}";
// Experts are stored with their inputs first.
constexpr NameMapEntry kAriaEntries[] = {
    {TensorRole::kRouter, "layers.{}.mlp.router"},
    {.role = TensorRole::kExpertGate,
     .pattern = kAriaGateUp,
     .transposed = true,
     .rows = {.part = 0, .parts = 2}},
    {.role = TensorRole::kExpertUp,
     .pattern = kAriaGateUp,
     .transposed = true,
     .rows = {.part = 1, .parts = 2}},
    {.role = TensorRole::kExpertDown,
     .pattern = "layers.{}.mlp.experts.fc2.{e}",
     .transposed = true},
};

// hidden_act applies to the shared MLP only.
void read_aria(const ConfigReader& reader, ModelConfig& config) {
  if (config.activation != Activation::kSilu)
    reader.fail(fmt::format("hidden_act: expected silu, got {}", reader.string("hidden_act", "")));
}

constexpr std::string_view kFlintTypes[] = {"flint"};
constexpr ExpertRules kFlintExperts{
    .router = {.num_experts = 256, .experts_per_token = 6, .score = RouterScore::kSigmoid},
    .intermediate_size = 512,
    .normalizes = true,
    .layers = ExpertLayers::kSparseStep,
    .shared = SharedExperts::kSize,
    .shared_default = 1024,
};
constexpr NameMapEntry kFlintEntries[] = {
    {.role = TensorRole::kSinks, .pattern = "layers.{}.self_attn.softmax_offset", .bare = true},
    {.role = TensorRole::kSinks, .pattern = "layers.{}.self_attn.sinks", .bare = true},
    {TensorRole::kSharedGate, "layers.{}.mlp.shared_expert.gate_proj"},
    {TensorRole::kSharedUp, "layers.{}.mlp.shared_expert.up_proj"},
    {TensorRole::kSharedDown, "layers.{}.mlp.shared_expert.down_proj"},
};

// The first two layers, every fourth one and the last one see everything and do not rotate. The
// first two have no experts.
void read_flint(const ConfigReader& reader, ModelConfig& config) {
  const size_t count = config.layer_windows.size();
  for (size_t i = 0; i < count; ++i) {
    if (!reader.has("layer_types") && (i < 2 || i % 4 == 1 || i + 1 == count))
      config.layer_windows[i] = 0;
    if (!reader.has("mlp_only_layers") && i < 2) config.experts.layers[i] = false;
    config.layer_rope[i] = config.layer_windows[i] > 0;
  }
}

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

const Family& aria_text_family() {
  static constexpr Family family{
      .name = "aria_text",
      .model_types = kAriaTypes,
      .defaults = {.vocab_size = 32000,
                   .hidden_size = 4096,
                   .intermediate_size = 4096,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048},
      .aliases = kAriaAliases,
      .experts = &kAriaExperts,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_aria,
      .hf_names = {.entries = kAriaEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kIgnoredTensors,
                   .base = &kMlpExpertNames},
  };
  return family;
}

const Family& flint_family() {
  static constexpr Family family{
      .name = "flint",
      .model_types = kFlintTypes,
      .defaults = {.vocab_size = 150144,
                   .hidden_size = 2048,
                   .intermediate_size = 6144,
                   .num_hidden_layers = 49,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 4,
                   .head_dim = 128,
                   .max_position_embeddings = 262144,
                   .sliding_window = 513},
      .window_rule = WindowRule::kAll,
      .has_sinks = true,
      .experts = &kFlintExperts,
      .qk_norm = QkNorm::kHead,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_flint,
      .hf_names = {.entries = kFlintEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kIgnoredTensors,
                   .base = &kMlpExpertNames},
  };
  return family;
}

}  // namespace quire
