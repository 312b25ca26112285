// Nemotron-H and Nemotron 3: each layer is either Mamba-2, attention without rotation, an MLP, or
// routed experts. No MLP and no expert has a gate.
#include <algorithm>

#include "models/config_reader.h"
#include "models/expert_names.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/state_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kNemotronHEntries[] = {
    {TensorRole::kTokenEmbedding, "embeddings"},
    {TensorRole::kFinalNorm, "norm_f"},
    {TensorRole::kLmHead, "lm_head"},
    {TensorRole::kInputNorm, "layers.{}.norm"},
    {TensorRole::kPreMlpNorm, "layers.{}.norm"},
    {TensorRole::kQ, "layers.{}.mixer.q_proj"},
    {TensorRole::kK, "layers.{}.mixer.k_proj"},
    {TensorRole::kV, "layers.{}.mixer.v_proj"},
    {TensorRole::kO, "layers.{}.mixer.o_proj"},
    {TensorRole::kUp, "layers.{}.mixer.up_proj"},
    {TensorRole::kDown, "layers.{}.mixer.down_proj"},
    {TensorRole::kRouter, "layers.{}.mixer.gate"},
    {.role = TensorRole::kRouterCorrection,
     .pattern = "layers.{}.mixer.gate.e_score_correction_bias",
     .bare = true},
    {TensorRole::kExpertUp, "layers.{}.mixer.experts.{e}.up_proj"},
    {TensorRole::kExpertDown, "layers.{}.mixer.experts.{e}.down_proj"},
    {TensorRole::kSharedUp, "layers.{}.mixer.shared_experts.up_proj"},
    {TensorRole::kSharedDown, "layers.{}.mixer.shared_experts.down_proj"},
    {TensorRole::kStateIn, "layers.{}.mixer.in_proj"},
    {TensorRole::kStateConv, "layers.{}.mixer.conv1d"},
    {.role = TensorRole::kStateStepBias, .pattern = "layers.{}.mixer.dt_bias", .bare = true},
    {.role = TensorRole::kStateA, .pattern = "layers.{}.mixer.A_log", .bare = true, .is_log = true},
    {.role = TensorRole::kStateD, .pattern = "layers.{}.mixer.D", .bare = true},
    {TensorRole::kStateNorm, "layers.{}.mixer.norm"},
    {TensorRole::kStateOut, "layers.{}.mixer.out_proj"},
};
constexpr NamePrefix kNemotronHPrefixes[] = {{"backbone.", ""}, {"model.", ""}};
constexpr std::string_view kNemotronHIgnored[] = {"mtp."};
constexpr NameMap kNemotronHNames{
    .entries = kNemotronHEntries, .prefixes = kNemotronHPrefixes, .ignored = kNemotronHIgnored};

constexpr NameMapEntry kNemotronHGgufEntries[] = {{TensorRole::kPreMlpNorm, "blk.{}.attn_norm"}};

constexpr std::string_view kNemotronHTypes[] = {"nemotron_h"};
constexpr std::string_view kPattern = "hybrid_override_pattern";
constexpr std::string_view kLayerLists[] = {"layers_block_type", kPattern};
constexpr KeyAlias kNemotronHAliases[] = {
    {"rms_norm_eps", "layer_norm_epsilon"},
    {"hidden_act", "mlp_hidden_act"},
    {"num_experts", "n_routed_experts"},
    {"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"},
    {"n_groups", "mamba_n_groups"},
    {"conv_kernel", "mamba_d_conv"},
    {"use_conv_bias", "mamba_conv_bias"},
    {"time_step_min", "mamba_dt_min"}};
constexpr ExpertRules kNemotronHExperts{
    .router = {.num_experts = 8,
               .experts_per_token = 2,
               .score = RouterScore::kSigmoid,
               .min_sum = 1e-20f,
               .group_score = GroupScore::kSumOfTwo},
    .intermediate_size = 7688,
    .normalizes = true,
    .gguf_normalizes = true,
    .shared = SharedExperts::kSize,
    .shared_default = 7688,
    .has_correction = true,
    .may_have_none = true,
};
constexpr SsdKeys kSsdKeys{"mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size",
                           "conv_kernel",     "use_conv_bias",  "use_bias"};

constexpr LayerParts kMamba{.attention = false, .state = true, .ffn = false};
constexpr LayerParts kAttention{.attention = true, .state = false, .ffn = false};
constexpr LayerParts kMlp{.attention = false, .state = false, .ffn = true};
struct LayerLetter {
  char letter;
  std::string_view words[2];
  LayerParts parts;
};
constexpr LayerLetter kLetters[] = {{'M', {"mamba", "linear_attention"}, kMamba},
                                    {'*', {"attention", "full_attention"}, kAttention},
                                    {'-', {"mlp", "mlp"}, kMlp},
                                    {'E', {"moe", "moe"}, kMlp}};

// Returns one letter per layer, for each way in which configurations list them.
std::string read_letters(const ConfigReader& reader) {
  if (!reader.has("layers_block_type")) return reader.string(kPattern, "");
  std::string letters;
  for (const std::string& word : reader.strings("layers_block_type")) {
    const auto known = std::find_if(
        std::begin(kLetters), std::end(kLetters),
        [&](const LayerLetter& one) { return one.words[0] == word || one.words[1] == word; });
    letters += known == std::end(kLetters) ? '?' : known->letter;
  }
  return letters;
}

void read_layers(const ConfigReader& reader, ModelConfig& config) {
  const std::string letters = read_letters(reader);
  if (static_cast<int64_t>(letters.size()) != config.num_hidden_layers) {
    reader.fail(fmt::format("{}: expected num_hidden_layers = {} layers, got {}", kPattern,
                            config.num_hidden_layers, letters.size()));
    return;
  }
  config.experts.layers.assign(letters.size(), false);
  for (size_t i = 0; i < letters.size(); ++i) {
    const auto known =
        std::find_if(std::begin(kLetters), std::end(kLetters),
                     [&](const LayerLetter& one) { return one.letter == letters[i]; });
    if (known == std::end(kLetters)) {
      reader.fail(fmt::format(
          "{}: expected M (mamba), * (attention), - (mlp) or E (moe) for every layer, got {}",
          kPattern, letters));
      return;
    }
    config.layer_parts[i] = known->parts;
    config.experts.layers[i] = letters[i] == 'E';
    if (letters[i] == 'E' && !config.experts.spec.any())
      reader.fail("n_routed_experts: expected at least 1 for layers of experts, got 0");
  }
}

void read_nemotron_h(const ConfigReader& reader, ModelConfig& config) {
  read_layers(reader, config);
  config.experts.spec.gated = false;
  if (reader.has("moe_latent_size"))
    reader.fail("moe_latent_size: expected null: experts behind a narrow layer are not supported");
  config.state = read_ssd(reader, kSsdKeys, {.num_groups = 8}, config.norm_eps);
  // Configurations state time_step_limit, but the models do not use it.
  config.state.min_step = static_cast<float>(reader.positive("time_step_min", 0.001));
  config.state.max_step = StateSpec().max_step;
}

}  // namespace

const Family& nemotron_h_family() {
  static constexpr Family family{
      .name = "nemotron_h",
      .model_types = kNemotronHTypes,
      .gguf_architecture = "nemotron_h",
      .gguf_moe_architecture = "nemotron_h_moe",
      .defaults = {.vocab_size = 131072,
                   .hidden_size = 4096,
                   .intermediate_size = 21504,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 8,
                   .head_dim = 128,
                   .max_position_embeddings = 4096,
                   .norm_eps = 1e-5,
                   .activation = "relu2"},
      .aliases = kNemotronHAliases,
      .layer_lists = kLayerLists,
      .positions = PositionKind::kNone,
      .experts = &kNemotronHExperts,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .gated_mlp = false,
      .read_more = read_nemotron_h,
      .hf_names = kNemotronHNames,
      .gguf_names = {.entries = kNemotronHGgufEntries,
                     .prefixes = kGgufPrefixes,
                     .ignored = kIgnoredTensors,
                     .base = &kGgufStateNames,
                     .ignores_later_layers = true},
  };
  return family;
}

}  // namespace quire
