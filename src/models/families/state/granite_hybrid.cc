// Granite 4 (multipliers, no rotation, optionally experts beside a shared MLP), Bamba, and
// Falcon-H1 (attention and Mamba-2 in parallel in every layer, multipliers everywhere).
#include <cmath>

#include "models/config_fields.h"
#include "models/family.h"
#include "models/state_names.h"

namespace quire {
namespace {

constexpr LayerWord kWords[] = {{"mamba", kStateParts},
                                {"linear_attention", kStateParts},
                                {"attention", kAttentionParts},
                                {"full_attention", kAttentionParts}};

// The number of channels is d_inner, or follows from mamba_expand.
StateSpec read_mamba2(const ConfigReader& reader, const ModelConfig& config, int64_t num_states) {
  const int64_t heads = reader.integer("mamba_n_heads", {1, 1 << 16}, 128);
  const int64_t expanded = reader.integer("mamba_expand", {1, 64}, 2) * config.hidden_size;
  const int64_t inner = reader.integer("mamba_d_ssm", {1, 1 << 20}, expanded);
  return read_ssd(reader, kMambaSsdKeys,
                  {.num_heads = heads, .head_dim = inner / heads, .num_states = num_states},
                  config.norm_eps);
}

constexpr SharedRows kGateRows{.part = 0, .parts = 2};
constexpr SharedRows kUpRows{.part = 1, .parts = 2};
constexpr std::string_view kInputs = "layers.{}.block_sparse_moe.input_linear.{e}";
constexpr std::string_view kSharedInputs = "layers.{}.shared_mlp.input_linear";
constexpr std::string_view kSharedOutputs = "layers.{}.shared_mlp.output_linear";
// In models without experts, the shared MLP is the MLP.
constexpr NameMapEntry kGraniteEntries[] = {
    {TensorRole::kFinalNorm, "norm"},
    {TensorRole::kPreMlpNorm, "layers.{}.post_attention_layernorm"},
    {TensorRole::kRouter, "layers.{}.block_sparse_moe.router.layer"},
    {.role = TensorRole::kExpertGate, .pattern = kInputs, .rows = kGateRows},
    {.role = TensorRole::kExpertUp, .pattern = kInputs, .rows = kUpRows},
    {TensorRole::kExpertDown, "layers.{}.block_sparse_moe.output_linear.{e}"},
    {.role = TensorRole::kSharedGate, .pattern = kSharedInputs, .rows = kGateRows},
    {.role = TensorRole::kSharedUp, .pattern = kSharedInputs, .rows = kUpRows},
    {TensorRole::kSharedDown, kSharedOutputs},
    {.role = TensorRole::kGate, .pattern = kSharedInputs, .rows = kGateRows},
    {.role = TensorRole::kUp, .pattern = kSharedInputs, .rows = kUpRows},
    {TensorRole::kDown, kSharedOutputs},
};
constexpr std::string_view kGraniteTypes[] = {"granitemoehybrid"};
constexpr KeyAlias kGraniteAliases[] = {
    {"logits_scaling", "logit_scale"},
    {"num_experts", "num_local_experts"},
    {"shared_expert_intermediate_size", "shared_intermediate_size"}};
constexpr ExpertRules kGraniteExperts{
    .router = {.num_experts = 8, .experts_per_token = 2, .weight = RouterWeight::kSoftmaxOfChosen},
    .shared = SharedExperts::kSize,
    .shared_default = 1024,
    .may_have_none = true,
};

void read_granite_hybrid(const ConfigReader& reader, ModelConfig& config) {
  read_granite_multipliers(reader, config);
  if (!read_layer_types(reader, kWords, config))
    config.layer_parts.assign(config.layer_parts.size(), kStateParts);
  config.state = read_mamba2(reader, config, 256);
  if (reader.string("position_embedding_type", "nope") != "rope")
    config.positions = PositionKind::kNone;
  if (!config.experts.spec.any()) {
    config.intermediate_size =
        reader.integer("shared_expert_intermediate_size", {1, 1 << 20}, 1024);
  }
}

constexpr std::string_view kBambaTypes[] = {"bamba"};

void read_bamba(const ConfigReader& reader, ModelConfig& config) {
  if (!read_layer_types(reader, kWords, config)) {
    read_layer_numbers(reader, "attn_layer_indices", kStateParts, kAttentionParts, config);
  }
  config.state = read_mamba2(reader, config, 256);
}

constexpr std::string_view kFalconTypes[] = {"falcon_h1"};

void read_falcon_state(const ConfigReader& reader, ModelConfig& config) {
  StateSpec& state = config.state;
  state = read_mamba2(reader, config, 256);
  state.has_norm = reader.boolean("mamba_rms_norm", false);
  state.gate_first = !reader.boolean("mamba_norm_before_gate", true);
  const std::vector<double> scales = reader.numbers("ssm_multipliers");
  const double in = reader.positive("ssm_in_multiplier", 1.0);
  if (!scales.empty() && scales.size() != state.in_scales.size()) {
    reader.fail(fmt::format("ssm_multipliers: expected {} of them, got {}", state.in_scales.size(),
                            scales.size()));
    return;
  }
  for (size_t i = 0; i < state.in_scales.size(); ++i)
    state.in_scales[i] = static_cast<float>(in * (scales.empty() ? 1.0 : scales[i]));
  state.out_scale = static_cast<float>(reader.positive("ssm_out_multiplier", 1.0));
  state.out_bias = reader.boolean("projectors_bias", false);
  // The scale of an input can only be moved to the output of a projection without a bias.
  if (state.proj_bias && in != 1.0)
    reader.fail("mamba_proj_bias: expected false beside ssm_in_multiplier, got true");
  if (state.out_bias && state.out_scale != 1.0f)
    reader.fail("projectors_bias: expected false beside ssm_out_multiplier, got true");
}

// attention_in_multiplier scales queries and keys, and so scores twice, and values once.
void read_falcon_h1(const ConfigReader& reader, ModelConfig& config) {
  config.layer_parts.assign(config.layer_parts.size(), {.attention = true, .state = true});
  read_falcon_state(reader, config);
  const double in = reader.positive("attention_in_multiplier", 1.0);
  const double key = reader.positive("key_multiplier", 1.0);
  config.attention_scale = in * in * key / std::sqrt(static_cast<double>(config.head_dim));
  config.attention_output_scale = in * reader.positive("attention_out_multiplier", 1.0);
  if (config.qkv_bias && (in != 1.0 || key != 1.0))
    reader.fail("attention_bias: expected false beside attention multipliers, got true");
  config.embedding_multiplier = reader.positive("embedding_multiplier", 1.0);
  config.logit_multiplier = reader.positive("lm_head_multiplier", 1.0);
  const std::vector<double> mlp = reader.numbers("mlp_multipliers");
  if (!mlp.empty() && mlp.size() != 2) {
    reader.fail(fmt::format("mlp_multipliers: expected 2 of them, got {}", mlp.size()));
  } else if (!mlp.empty()) {
    config.ffn_gate_scale = mlp[0];
    config.ffn_inner_scale = mlp[1];
  }
}

}  // namespace

const Family& granite_hybrid_family() {
  static constexpr Family family{
      .name = "granitemoehybrid",
      .model_types = kGraniteTypes,
      .gguf_architecture = "granitehybrid",
      .defaults = {.vocab_size = 32000,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048},
      .aliases = kGraniteAliases,
      .experts = &kGraniteExperts,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_granite_hybrid,
      .hf_names = {.entries = kGraniteEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kIgnoredTensors,
                   .base = &kMambaNames},
      .gguf_names = kGgufStateNames,
      .gguf_rope_style = RopeStyle::kInterleaved,  // its q and k rows are stored permuted
  };
  return family;
}

const Family& bamba_family() {
  static constexpr Family family{
      .name = "bamba",
      .model_types = kBambaTypes,
      .defaults = {.vocab_size = 128000,
                   .hidden_size = 4096,
                   .intermediate_size = 14336,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 8,
                   .max_position_embeddings = 262144,
                   .norm_eps = 1e-5,
                   .partial_rotary_factor = 0.5},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .read_more = read_bamba,
      .hf_names = kMambaNames,
  };
  return family;
}

const Family& falcon_h1_family() {
  static constexpr Family family{
      .name = "falcon_h1",
      .model_types = kFalconTypes,
      .gguf_architecture = "falcon-h1",  // its files have the multipliers in the weights
      .defaults = {.vocab_size = 128000,
                   .hidden_size = 4096,
                   .intermediate_size = 14336,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 8,
                   .max_position_embeddings = 8192,
                   .norm_eps = 1e-5},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .read_more = read_falcon_h1,
      .hf_names = kMambaNames,
      .gguf_names = kGgufStateNames,
  };
  return family;
}

}  // namespace quire
