// Mamba, Falcon-Mamba (norms without weights in the mixer) and Mamba-2 consist of mixers only.
// Jamba has Mamba with weighted norms in the mixer, some attention without rotation, and some
// experts.
#include <algorithm>

#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/state_names.h"
#include "weights/gguf/gguf.h"

namespace quire {
namespace {

constexpr NameMapEntry kMixerEntries[] = {
    {TensorRole::kTokenEmbedding, "embeddings"},
    {TensorRole::kFinalNorm, "norm_f"},
    {TensorRole::kLmHead, "lm_head"},
    {TensorRole::kInputNorm, "layers.{}.norm"},
    {TensorRole::kStateIn, "layers.{}.mixer.in_proj"},
    {TensorRole::kStateConv, "layers.{}.mixer.conv1d"},
    {TensorRole::kStateX, "layers.{}.mixer.x_proj"},
    {TensorRole::kStateStepUp, "layers.{}.mixer.dt_proj"},
    {TensorRole::kStateStepBias, "layers.{}.mixer.dt_proj"},
    {.role = TensorRole::kStateA, .pattern = "layers.{}.mixer.A_log", .bare = true, .is_log = true},
    {.role = TensorRole::kStateD, .pattern = "layers.{}.mixer.D", .bare = true},
    {TensorRole::kStateNorm, "layers.{}.mixer.norm"},
    {TensorRole::kStateOut, "layers.{}.mixer.out_proj"},
};
constexpr NamePrefix kMambaPrefixes[] = {{"backbone.", ""}, {"model.backbone.", "model."}};
constexpr NameMap kMixerNames{.entries = kMixerEntries, .prefixes = kMambaPrefixes};

constexpr NameMapEntry kMamba2Entries[] = {
    {.role = TensorRole::kStateStepBias, .pattern = "layers.{}.mixer.dt_bias", .bare = true},
};
constexpr NameMap kMamba2Names{
    .entries = kMamba2Entries, .prefixes = kMambaPrefixes, .base = &kMixerNames};

constexpr NameMapEntry kJambaEntries[] = {
    {TensorRole::kStateStepBias, "layers.{}.mamba.dt_proj"},
};
constexpr NameMap kJambaNames{.entries = kJambaEntries,
                              .prefixes = kLlamaPrefixes,
                              .ignored = kIgnoredTensors,
                              .base = &kMambaNames};

constexpr KeyAlias kMambaAliases[] = {{"rms_norm_eps", "layer_norm_epsilon"}};
constexpr LayerParts kMixerParts{.attention = false, .state = true, .ffn = false};

// The keys of Mamba's sizes.
struct ScanKeys {
  std::string_view expand, num_states, conv_kernel, conv_bias, proj_bias, rank;
};
constexpr ScanKeys kPlainKeys{"expand",        "state_size", "conv_kernel",
                              "use_conv_bias", "use_bias",   "time_step_rank"};
constexpr ScanKeys kJambaKeys{"mamba_expand",    "mamba_d_state",   "mamba_d_conv",
                              "mamba_conv_bias", "mamba_proj_bias", "mamba_dt_rank"};

StateSpec read_scan(const ConfigReader& reader, const ScanKeys& keys, const ModelConfig& config) {
  StateSpec state{.kind = StateKind::kSelectiveScan};
  state.conv_kernel = read_conv_kernel(reader, keys.conv_kernel, 4);
  state.conv_bias = reader.boolean(keys.conv_bias, true);
  state.proj_bias = state.out_bias = reader.boolean(keys.proj_bias, false);
  state.num_heads =
      static_cast<int32_t>(reader.integer(keys.expand, {1, 64}, 2) * config.hidden_size);
  state.key_dim = reader.integer(keys.num_states, {1, kMaxScanStates}, 16);
  state.rank = read_integer_or_auto(reader, keys.rank, (config.hidden_size + 15) / 16);
  state.gate = Gate::kSilu;
  return state;
}

void read_mamba(const ConfigReader& reader, ModelConfig& config) {
  config.layer_parts.assign(config.layer_parts.size(), kMixerParts);
  config.state = read_scan(reader, kPlainKeys, config);
}

bool has_step_norms(const GgufFile& file) {
  const GgufValue* value = file.find("mamba.ssm.dt_b_c_rms");
  const bool* flag = value == nullptr ? nullptr : std::get_if<bool>(&value->value);
  return flag != nullptr && *flag;
}

void read_falcon_mamba(const ConfigReader& reader, ModelConfig& config) {
  read_mamba(reader, config);
  config.state.step_norms = StepNorms::kPlain;
  config.state.norm_eps = static_cast<float>(reader.positive("mixer_rms_eps", 1e-6));
}

constexpr SsdKeys kMamba2Keys{"num_heads",   "head_dim",      "n_groups", "state_size",
                              "conv_kernel", "use_conv_bias", "use_bias"};

void read_mamba2(const ConfigReader& reader, ModelConfig& config) {
  config.layer_parts.assign(config.layer_parts.size(), kMixerParts);
  config.state = read_ssd(reader, kMamba2Keys, {.num_groups = 8}, config.norm_eps);
}

constexpr LayerWord kJambaWords[] = {{"mamba", kStateParts},
                                     {"linear_attention", kStateParts},
                                     {"attention", kAttentionParts},
                                     {"full_attention", kAttentionParts}};

// Returns for each layer i whether i mod period equals the offset.
std::vector<bool> read_period(const ConfigReader& reader, std::string_view period_key,
                              std::string_view offset_key, int64_t period, int64_t offset,
                              size_t num_layers) {
  period = reader.integer(period_key, {1, 4096}, period);
  offset = reader.integer(offset_key, {0, period - 1}, std::min(offset, period - 1));
  std::vector<bool> chosen;
  for (size_t i = 0; i < num_layers; ++i)
    chosen.push_back(static_cast<int64_t>(i) % period == offset);
  return chosen;
}

void read_jamba(const ConfigReader& reader, ModelConfig& config) {
  const size_t count = config.layer_parts.size();
  if (!read_layer_types(reader, kJambaWords, config)) {
    const std::vector<bool> attends =
        read_period(reader, "attn_layer_period", "attn_layer_offset", 8, 4, count);
    for (size_t i = 0; i < count; ++i)
      config.layer_parts[i] = attends[i] ? kAttentionParts : kStateParts;
  }
  config.experts.layers =
      read_period(reader, "expert_layer_period", "expert_layer_offset", 2, 1, count);
  read_mlp_layer_types(reader, config);
  config.state = read_scan(reader, kJambaKeys, config);
  config.state.step_norms = StepNorms::kWeighted;
  config.state.norm_eps = static_cast<float>(config.norm_eps);
}

constexpr std::string_view kMambaTypes[] = {"mamba"};
constexpr std::string_view kFalconMambaTypes[] = {"falcon_mamba"};
constexpr std::string_view kMamba2Types[] = {"mamba2"};
constexpr std::string_view kJambaTypes[] = {"jamba"};
constexpr ExpertRules kJambaExperts{.router = {.num_experts = 16, .experts_per_token = 2}};

// The sizes of attention and MLP are placeholders: the models have neither.
constexpr FamilyDefaults kMambaDefaults{.vocab_size = 50280,
                                        .hidden_size = 768,
                                        .intermediate_size = 1,
                                        .num_hidden_layers = 32,
                                        .num_attention_heads = 1,
                                        .head_dim = 2,
                                        .max_position_embeddings = 1 << 20,
                                        .norm_eps = 1e-5,
                                        .tie_word_embeddings = true};

constexpr Family make_family(std::string_view name, std::span<const std::string_view> types,
                             std::string_view gguf_architecture,
                             void (*read_more)(const ConfigReader&, ModelConfig&),
                             const NameMap& names) {
  return {.name = name,
          .model_types = types,
          .gguf_architecture = gguf_architecture,
          .defaults = kMambaDefaults,
          .aliases = kMambaAliases,
          .positions = PositionKind::kNone,
          .read_more = read_more,
          .hf_names = names,
          .gguf_names = kGgufStateNames};
}

}  // namespace

const Family& mamba_family() {
  static constexpr Family family =
      make_family("mamba", kMambaTypes, "mamba", read_mamba, kMixerNames);
  return family;
}

const Family& falcon_mamba_family() {
  static constexpr Family family = [] {
    Family made =
        make_family("falcon_mamba", kFalconMambaTypes, "mamba", read_falcon_mamba, kMixerNames);
    made.owns_gguf = has_step_norms;
    return made;
  }();
  return family;
}

const Family& mamba2_family() {
  static constexpr Family family = [] {
    Family made = make_family("mamba2", kMamba2Types, "mamba2", read_mamba2, kMamba2Names);
    made.defaults.vocab_size = 32768;
    made.defaults.hidden_size = 4096;
    made.defaults.num_hidden_layers = 64;
    made.defaults.tie_word_embeddings = false;
    return made;
  }();
  return family;
}

const Family& jamba_family() {
  static constexpr Family family{
      .name = "jamba",
      .model_types = kJambaTypes,
      .gguf_architecture = "jamba",
      .defaults = {.vocab_size = 65536,
                   .hidden_size = 4096,
                   .intermediate_size = 14336,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 8,
                   .max_position_embeddings = 262144},
      .positions = PositionKind::kNone,
      .experts = &kJambaExperts,
      .read_more = read_jamba,
      .hf_names = kJambaNames,
      .gguf_names = kGgufStateNames,
  };
  return family;
}

}  // namespace quire
