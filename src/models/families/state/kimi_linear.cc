// Kimi Linear: Kimi Delta Attention, a DeltaNet with a decay per channel, and in every fourth layer
// latent attention without rotation; experts as in DeepSeek-V3.
#include <algorithm>

#include "models/config_reader.h"
#include "models/families/latent/latent_fields.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr NameMapEntry bare(TensorRole role, std::string_view pattern) {
  return {.role = role, .pattern = pattern, .bare = true};
}
constexpr NameMapEntry kKimiLinearEntries[] = {
    {TensorRole::kStateQ, "layers.{}.self_attn.q_proj"},
    {TensorRole::kStateK, "layers.{}.self_attn.k_proj"},
    {TensorRole::kStateV, "layers.{}.self_attn.v_proj"},
    {TensorRole::kStateBeta, "layers.{}.self_attn.b_proj"},
    {TensorRole::kStateStepDown, "layers.{}.self_attn.f_a_proj"},
    {TensorRole::kStateStepUp, "layers.{}.self_attn.f_b_proj"},
    {TensorRole::kStateGateDown, "layers.{}.self_attn.g_a_proj"},
    {TensorRole::kStateGateUp, "layers.{}.self_attn.g_b_proj"},
    {TensorRole::kStateConvQ, "layers.{}.self_attn.q_conv1d"},
    {TensorRole::kStateConvK, "layers.{}.self_attn.k_conv1d"},
    {TensorRole::kStateConvV, "layers.{}.self_attn.v_conv1d"},
    bare(TensorRole::kStateStepBias, "layers.{}.self_attn.dt_bias"),
    {.role = TensorRole::kStateA,
     .pattern = "layers.{}.self_attn.A_log",
     .bare = true,
     .is_log = true},
    {TensorRole::kStateNorm, "layers.{}.self_attn.o_norm"},
    {TensorRole::kStateOut, "layers.{}.self_attn.o_proj"},
    {TensorRole::kRouter, "layers.{}.block_sparse_moe.gate"},
    bare(TensorRole::kRouterCorrection, "layers.{}.block_sparse_moe.gate.e_score_correction_bias"),
    {TensorRole::kExpertGate, "layers.{}.block_sparse_moe.experts.{e}.w1"},
    {TensorRole::kExpertUp, "layers.{}.block_sparse_moe.experts.{e}.w3"},
    {TensorRole::kExpertDown, "layers.{}.block_sparse_moe.experts.{e}.w2"},
    {TensorRole::kSharedGate, "layers.{}.block_sparse_moe.shared_experts.gate_proj"},
    {TensorRole::kSharedUp, "layers.{}.block_sparse_moe.shared_experts.up_proj"},
    {TensorRole::kSharedDown, "layers.{}.block_sparse_moe.shared_experts.down_proj"},
    // The MLP of the first layers, as released and as transformers saves it.
    {TensorRole::kGate, "layers.{}.mlp.gate_proj"},
    {TensorRole::kGate, "layers.{}.block_sparse_moe.gate_proj"},
    {TensorRole::kUp, "layers.{}.mlp.up_proj"},
    {TensorRole::kUp, "layers.{}.block_sparse_moe.up_proj"},
    {TensorRole::kDown, "layers.{}.mlp.down_proj"},
    {TensorRole::kDown, "layers.{}.block_sparse_moe.down_proj"},
};

// In layers with a state, keys and queries have the names of attention.
constexpr NameMapEntry kKimiLinearGgufEntries[] = {
    {TensorRole::kStateQ, "blk.{}.attn_q"},
    {TensorRole::kStateK, "blk.{}.attn_k"},
    {TensorRole::kStateV, "blk.{}.attn_v"},
    {TensorRole::kStateBeta, "blk.{}.ssm_beta"},
    {TensorRole::kStateStepDown, "blk.{}.ssm_f_a"},
    {TensorRole::kStateStepUp, "blk.{}.ssm_f_b"},
    {TensorRole::kStateGateDown, "blk.{}.ssm_g_a"},
    {TensorRole::kStateGateUp, "blk.{}.ssm_g_b"},
    {TensorRole::kStateConvQ, "blk.{}.ssm_conv1d_q"},
    {TensorRole::kStateConvK, "blk.{}.ssm_conv1d_k"},
    {TensorRole::kStateConvV, "blk.{}.ssm_conv1d_v"},
    bare(TensorRole::kStateStepBias, "blk.{}.ssm_dt.bias"),
    bare(TensorRole::kStateA, "blk.{}.ssm_a"),
    {TensorRole::kStateNorm, "blk.{}.ssm_norm"},
    {TensorRole::kStateOut, "blk.{}.attn_output"},
};

constexpr std::string_view kKimiLinearTypes[] = {"kimi_linear"};
constexpr KeyAlias kKimiLinearAliases[] = {{"max_position_embeddings", "model_max_length"},
                                           {"norm_topk_prob", "moe_renormalize"},
                                           {"n_group", "num_expert_group"},
                                           {"num_experts", "num_local_experts"},
                                           {"num_experts_per_tok", "num_experts_per_token"},
                                           {"num_shared_experts", "n_shared_experts"}};
constexpr LayerWord kWords[] = {{"linear_attention", kStateParts},
                                {"full_attention", kAttentionParts}};

constexpr ExpertRules kKimiLinearExperts{
    .router = {.num_experts = 256,
               .experts_per_token = 8,
               .score = RouterScore::kSigmoid,
               .min_sum = 1e-20f,
               .scale = 2.446f,
               .group_score = GroupScore::kSumOfTwo},
    .intermediate_size = 1024,
    .normalizes = true,
    .gguf_normalizes = true,
    .layers = ExpertLayers::kAfterDense,
    .first_layer = 1,
    .shared = SharedExperts::kCount,
    .shared_default = 1,
    .has_correction = true,
};
constexpr LatentSpec kLatent{.rank = 512, .rope_dim = 64, .nope_dim = 128, .value_dim = 128};

// Released files number layers from 1.
void read_numbered_layers(const ConfigReader& linear, ModelConfig& config) {
  const auto count = static_cast<double>(config.num_hidden_layers);
  size_t listed = 0;
  for (const auto& [key, parts] :
       {std::pair{"kda_layers", kStateParts}, std::pair{"full_attn_layers", kAttentionParts}}) {
    for (const double layer : linear.numbers(key)) {
      ++listed;
      if (!(layer >= 1.0 && layer <= count)) {
        linear.fail(fmt::format("{}: expected layers from 1 to {}, got {}", key, count, layer));
        return;
      }
      config.layer_parts[static_cast<size_t>(layer) - 1] = parts;
    }
  }
  if (listed != config.layer_parts.size()) {
    linear.fail(fmt::format(
        "linear_attn_config: expected each of {} layers in kda_layers or full_attn_layers, got {}",
        count, listed));
  }
}

void read_kimi_linear(const ConfigReader& reader, ModelConfig& config) {
  const std::optional<ConfigReader> nested = reader.child("linear_attn_config");
  if (!read_layer_types(reader, kWords, config)) {
    if (nested) {
      read_numbered_layers(*nested, config);
    } else {
      for (size_t i = 0; i < config.layer_parts.size(); ++i)
        config.layer_parts[i] = i > 0 && i % 4 == 0 ? kAttentionParts : kStateParts;
    }
  }
  const auto size = [&](std::string_view inner, std::string_view outer, int64_t most,
                        int64_t otherwise) {
    const int64_t said = reader.integer(outer, {1, most}, otherwise);
    return nested ? nested->integer(inner, {1, most}, said) : said;
  };
  StateSpec& state = config.state;
  state = {.kind = StateKind::kDeltaRule};
  state.conv_kernel = nested ? read_conv_kernel(*nested, "short_conv_kernel_size", 4)
                             : read_conv_kernel(reader, "linear_conv_kernel_dim", 4);
  state.num_heads = static_cast<int32_t>(size("num_heads", "linear_num_heads", 4096, 32));
  state.num_key_heads = state.num_heads;
  state.key_dim = size("head_dim", "linear_head_dim", kMaxDeltaKeyDim, 128);
  state.value_dim = state.rank = state.key_dim;
  state.has_channel_decay = true;
  state.gate = Gate::kSigmoid;
  state.has_norm = state.shared_norm = true;
  state.norm_group = state.value_dim;
  state.norm_eps = static_cast<float>(config.norm_eps);
  read_latent(reader, kLatent, config);
  read_mlp_layer_types(reader, config);
}

}  // namespace

const Family& kimi_linear_family() {
  static constexpr Family family{
      .name = "kimi_linear",
      .model_types = kKimiLinearTypes,
      .gguf_architecture = "kimi-linear",
      .defaults = {.vocab_size = 163840,
                   .hidden_size = 2304,
                   .intermediate_size = 9216,
                   .num_hidden_layers = 27,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 32,
                   .head_dim = 64,
                   .max_position_embeddings = 1048576,
                   .norm_eps = 1e-5},
      .aliases = kKimiLinearAliases,
      .positions = PositionKind::kNone,
      .experts = &kKimiLinearExperts,
      .read_more = read_kimi_linear,
      .hf_names = {.entries = kKimiLinearEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kIgnoredTensors,
                   .base = &kLatentNames,
                   .ignores_later_layers = true},
      .gguf_names = {.entries = kKimiLinearGgufEntries,
                     .prefixes = kGgufPrefixes,
                     .ignored = kIgnoredTensors,
                     .base = &kGgufLatentNames,
                     .ignores_later_layers = true},
  };
  return family;
}

}  // namespace quire
