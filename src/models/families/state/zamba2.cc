// Zamba2: Mamba-2 in every layer, and before some layers a transformer block that reads the
// residual stream together with the embedding. There are a few such blocks, which are used in turn,
// each time with other low-rank updates.
#include <cmath>

#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/state_names.h"

namespace quire {
namespace {

constexpr std::string_view kZamba2Types[] = {"zamba2"};
constexpr LayerParts kHybridParts{.attention = true, .state = true};
constexpr LayerParts kMixerParts{.attention = false, .state = true, .ffn = false};
constexpr LayerWord kWords[] = {
    {"hybrid", kHybridParts}, {"linear_attention", kMixerParts}, {"mamba", kMixerParts}};
// The layers with a block in the first models, whose files need not list them.
constexpr int64_t kFirstHybrids[] = {6, 12, 18, 24, 30, 36, 42, 47, 51};
constexpr int64_t kFirstLayers = 54;

constexpr std::string_view kZamba2GateUp = "layers.{}.shared_transformer.feed_forward.gate_up_proj";
constexpr SharedRows kGateRows{.part = 0, .parts = 2};
constexpr SharedRows kUpRows{.part = 1, .parts = 2};
constexpr NameMapEntry kZamba2Entries[] = {
    {TensorRole::kInputNorm, "layers.{}.input_layernorm"},
    {TensorRole::kInputNorm, "layers.{}.mamba_decoder.input_layernorm"},
    {TensorRole::kPairNorm, "layers.{}.shared_transformer.input_layernorm"},
    {TensorRole::kQ, "layers.{}.shared_transformer.self_attn.q_proj"},
    {TensorRole::kK, "layers.{}.shared_transformer.self_attn.k_proj"},
    {TensorRole::kV, "layers.{}.shared_transformer.self_attn.v_proj"},
    {TensorRole::kO, "layers.{}.shared_transformer.self_attn.o_proj"},
    {TensorRole::kPreMlpNorm, "layers.{}.shared_transformer.pre_ff_layernorm"},
    {.role = TensorRole::kGate, .pattern = kZamba2GateUp, .rows = kGateRows},
    {.role = TensorRole::kUp, .pattern = kZamba2GateUp, .rows = kUpRows},
    {TensorRole::kDown, "layers.{}.shared_transformer.feed_forward.down_proj"},
    {TensorRole::kBlockOut, "layers.{}.linear"},
    {TensorRole::kUpdateQueryDown,
     "layers.{}.shared_transformer.self_attn.linear_q_adapter_list.{e}.0"},
    {TensorRole::kUpdateQueryUp,
     "layers.{}.shared_transformer.self_attn.linear_q_adapter_list.{e}.1"},
    {TensorRole::kUpdateKeyDown,
     "layers.{}.shared_transformer.self_attn.linear_k_adapter_list.{e}.0"},
    {TensorRole::kUpdateKeyUp,
     "layers.{}.shared_transformer.self_attn.linear_k_adapter_list.{e}.1"},
    {TensorRole::kUpdateValueDown,
     "layers.{}.shared_transformer.self_attn.linear_v_adapter_list.{e}.0"},
    {TensorRole::kUpdateValueUp,
     "layers.{}.shared_transformer.self_attn.linear_v_adapter_list.{e}.1"},
    {TensorRole::kUpdateGateDown,
     "layers.{}.shared_transformer.feed_forward.gate_up_proj_adapter_list.{e}.0"},
    {TensorRole::kUpdateGateUp,
     "layers.{}.shared_transformer.feed_forward.gate_up_proj_adapter_list.{e}.1"},
    {TensorRole::kStateIn, "layers.{}.mamba.in_proj"},
    {TensorRole::kStateIn, "layers.{}.mamba_decoder.mamba.in_proj"},
    {TensorRole::kStateConv, "layers.{}.mamba.conv1d"},
    {TensorRole::kStateConv, "layers.{}.mamba_decoder.mamba.conv1d"},
    {.role = TensorRole::kStateStepBias, .pattern = "layers.{}.mamba.dt_bias", .bare = true},
    {.role = TensorRole::kStateStepBias,
     .pattern = "layers.{}.mamba_decoder.mamba.dt_bias",
     .bare = true},
    {.role = TensorRole::kStateA, .pattern = "layers.{}.mamba.A_log", .bare = true, .is_log = true},
    {.role = TensorRole::kStateA,
     .pattern = "layers.{}.mamba_decoder.mamba.A_log",
     .bare = true,
     .is_log = true},
    {.role = TensorRole::kStateD, .pattern = "layers.{}.mamba.D", .bare = true},
    {.role = TensorRole::kStateD, .pattern = "layers.{}.mamba_decoder.mamba.D", .bare = true},
    {TensorRole::kStateNorm, "layers.{}.mamba.norm"},
    {TensorRole::kStateNorm, "layers.{}.mamba_decoder.mamba.norm"},
    {TensorRole::kStateOut, "layers.{}.mamba.out_proj"},
    {TensorRole::kStateOut, "layers.{}.mamba_decoder.mamba.out_proj"},
};
// Files with all copies of weights repeat a block wherever it is used.
constexpr std::string_view kZamba2Ignored[] = {"rotary_emb.inv_freq", ".shared_transformer."};
constexpr SsdKeys kKeys{"n_mamba_heads", "", "mamba_ngroups",  "mamba_d_state",
                        "mamba_d_conv",  "", "add_bias_linear"};

void read_layers(const ConfigReader& reader, ModelConfig& config) {
  if (!read_layer_types(reader, kWords, config)) {
    if (config.num_hidden_layers != kFirstLayers) {
      reader.fail(
          fmt::format("layers_block_type: expected num_hidden_layers = {} entries, got none",
                      config.num_hidden_layers));
      return;
    }
    config.layer_parts.assign(config.layer_parts.size(), kMixerParts);
    for (const int64_t layer : kFirstHybrids)
      config.layer_parts[static_cast<size_t>(layer)] = kHybridParts;
  }
  const int64_t num_blocks = reader.integer("num_mem_blocks", {1, 4096}, 1);
  const int64_t rank = reader.integer("adapter_rank", {1, 1 << 16}, 128);
  const bool updates_attention = reader.boolean("use_shared_attention_adapter", false);
  std::vector<int32_t> uses;  // layers with a block
  config.shared_blocks.resize(config.layer_parts.size());
  for (size_t i = 0; i < config.layer_parts.size(); ++i) {
    if (!config.layer_parts[i].attention) continue;
    uses.push_back(static_cast<int32_t>(i));
    const int64_t use = std::ssize(uses) - 1;
    // In transformers, without tied embeddings nothing else is tied, either.
    const int64_t first = config.tie_word_embeddings ? use % num_blocks : use;
    config.shared_blocks[i] = {.weights_layer = uses[static_cast<size_t>(first)],
                               .use = static_cast<int32_t>(use),
                               .update_rank = rank,
                               .updates_attention = updates_attention};
  }
}

void read_zamba2(const ConfigReader& reader, ModelConfig& config) {
  read_layers(reader, config);
  const int64_t heads = config.num_attention_heads;
  config.head_dim = 2 * config.hidden_size / heads;  // whatever attention_head_dim says
  if (2 * config.hidden_size % heads != 0 || config.head_dim % 2 != 0 ||
      config.head_dim > kMaxAttentionHeadDim) {
    reader.fail(fmt::format(
        "num_attention_heads: expected heads of an even width of at most {} in twice hidden_size "
        "{}, got {}",
        kMaxAttentionHeadDim, config.hidden_size, heads));
    return;
  }
  config.attention_scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim) / 2);
  if (!reader.boolean("use_mem_rope", false)) config.positions = PositionKind::kNone;
  constexpr int64_t kLongContext = 16384;
  if (reader.boolean("use_long_context", false)) config.max_position_embeddings = kLongContext;
  const int64_t mamba_heads = reader.integer("n_mamba_heads", {1, 1 << 16}, 8);
  const double inner =
      reader.positive("mamba_expand", 2.0) * static_cast<double>(config.hidden_size);
  if (!(inner <= 1 << 20)) {
    reader.fail(fmt::format("mamba_expand: expected at most 2^20 channels, got {}", inner));
    return;
  }
  const auto channels = static_cast<int64_t>(inner);
  if (channels % mamba_heads != 0) {
    reader.fail(fmt::format("n_mamba_heads: expected a divisor of {} channels, got {}", channels,
                            mamba_heads));
    return;
  }
  constexpr double kMixerEps = 1e-5;  // whatever rms_norm_eps says
  config.state = read_ssd(reader, kKeys,
                          {.num_heads = mamba_heads,
                           .head_dim = channels / mamba_heads,
                           .num_groups = 1,
                           .num_states = 64},
                          kMixerEps);
  config.state.conv_bias = true;  // whatever use_conv_bias says
  config.state.min_step = static_cast<float>(reader.positive("time_step_min", 0.001));
  config.state.max_step = 3.4e38f;
  config.mlp_bias = reader.boolean("add_bias_linear", false);
}

}  // namespace

const Family& zamba2_family() {
  static constexpr Family family{
      .name = "zamba2",
      .model_types = kZamba2Types,
      .defaults = {.vocab_size = 32000,
                   .hidden_size = 2560,
                   .intermediate_ratio = 4,
                   .num_hidden_layers = kFirstLayers,
                   .num_attention_heads = 32,
                   .head_dim = 160,
                   .max_position_embeddings = 4096,
                   .norm_eps = 1e-5,
                   .activation = "gelu",
                   .tie_word_embeddings = true},
      .read_more = read_zamba2,
      .hf_names = {.entries = kZamba2Entries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kZamba2Ignored,
                   .base = &kMambaNames},
  };
  return family;
}

}  // namespace quire
