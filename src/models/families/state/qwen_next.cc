// Qwen3-Next and Qwen3.5 (also 3.6), dense and with experts: gated DeltaNet, and in every fourth
// layer attention with a gate on its output. Norms multiply by 1 + w, except the one in DeltaNet.
#include "models/config_reader.h"
#include "models/expert_names.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr std::string_view kQwenNextIgnored[] = {"rotary_emb.inv_freq", "visual.", "mtp."};

// The names of both families, followed by those of each.
constexpr NameMapEntry kSharedEntries[] = {
    {TensorRole::kSharedGate, "layers.{}.mlp.shared_expert.gate_proj"},
    {TensorRole::kSharedUp, "layers.{}.mlp.shared_expert.up_proj"},
    {TensorRole::kSharedDown, "layers.{}.mlp.shared_expert.down_proj"},
    {TensorRole::kSharedRouter, "layers.{}.mlp.shared_expert_gate"},
    {.role = TensorRole::kQ, .pattern = "layers.{}.self_attn.q_proj", .runs = RowRuns::kPerGroup},
    {.role = TensorRole::kQueryGate,
     .pattern = "layers.{}.self_attn.q_proj",
     .runs = RowRuns::kPerGroup},
    {TensorRole::kStateConv, "layers.{}.linear_attn.conv1d"},
    {.role = TensorRole::kStateStepBias, .pattern = "layers.{}.linear_attn.dt_bias", .bare = true},
    {.role = TensorRole::kStateA,
     .pattern = "layers.{}.linear_attn.A_log",
     .bare = true,
     .is_log = true},
    {TensorRole::kStateNorm, "layers.{}.linear_attn.norm"},
    {TensorRole::kStateOut, "layers.{}.linear_attn.out_proj"},
};
constexpr NameMap kSharedNames{.entries = kSharedEntries, .base = &kMlpExpertNames};

constexpr NameMapEntry in_runs(TensorRole role, std::string_view pattern, RowRuns runs) {
  return {.role = role, .pattern = pattern, .runs = runs};
}
constexpr std::string_view kNextQkvz = "layers.{}.linear_attn.in_proj_qkvz";
constexpr std::string_view kNextBa = "layers.{}.linear_attn.in_proj_ba";
constexpr NameMapEntry kNextEntries[] = {
    in_runs(TensorRole::kStateQ, kNextQkvz, RowRuns::kPerGroup),
    in_runs(TensorRole::kStateK, kNextQkvz, RowRuns::kPerGroup),
    in_runs(TensorRole::kStateV, kNextQkvz, RowRuns::kPerGroup),
    in_runs(TensorRole::kStateZ, kNextQkvz, RowRuns::kPerGroup),
    in_runs(TensorRole::kStateBeta, kNextBa, RowRuns::kPerGroup),
    in_runs(TensorRole::kStateStep, kNextBa, RowRuns::kPerGroup),
};
constexpr NameMap kNextNames{.entries = kNextEntries,
                             .prefixes = kLlamaPrefixes,
                             .ignored = kQwenNextIgnored,
                             .norm_offset = 1.0f,
                             .base = &kSharedNames};

// Experts are stored one by one, or all of a layer together.
constexpr std::string_view kQkv = "layers.{}.linear_attn.in_proj_qkv";
constexpr std::string_view kQwenNextGateUp = "layers.{}.mlp.experts.gate_up_proj.{e}";
constexpr NameMapEntry k35Entries[] = {
    in_runs(TensorRole::kStateQ, kQkv, RowRuns::kStacked),
    in_runs(TensorRole::kStateK, kQkv, RowRuns::kStacked),
    in_runs(TensorRole::kStateV, kQkv, RowRuns::kStacked),
    {TensorRole::kStateZ, "layers.{}.linear_attn.in_proj_z"},
    {TensorRole::kStateBeta, "layers.{}.linear_attn.in_proj_b"},
    {TensorRole::kStateStep, "layers.{}.linear_attn.in_proj_a"},
    {TensorRole::kExpertGate, "layers.{}.mlp.experts.{e}.gate_proj"},
    {.role = TensorRole::kExpertGate, .pattern = kQwenNextGateUp, .rows = {.part = 0, .parts = 2}},
    {TensorRole::kExpertUp, "layers.{}.mlp.experts.{e}.up_proj"},
    {.role = TensorRole::kExpertUp, .pattern = kQwenNextGateUp, .rows = {.part = 1, .parts = 2}},
    {TensorRole::kExpertDown, "layers.{}.mlp.experts.{e}.down_proj"},
    {TensorRole::kExpertDown, "layers.{}.mlp.experts.down_proj.{e}"},
};
constexpr NameMap k35Names{.entries = k35Entries,
                           .prefixes = kLlamaPrefixes,
                           .ignored = kQwenNextIgnored,
                           .norm_offset = 1.0f,
                           .base = &kSharedNames};

// GGUF files store norm weights with the 1 added, and the decay itself; their value heads use the
// key heads in turn.
constexpr std::string_view kGgufQkv = "blk.{}.attn_qkv";
constexpr NameMapEntry kGguf35Entries[] = {
    in_runs(TensorRole::kStateQ, kGgufQkv, RowRuns::kStacked),
    in_runs(TensorRole::kStateK, kGgufQkv, RowRuns::kStacked),
    in_runs(TensorRole::kStateV, kGgufQkv, RowRuns::kStacked),
    {TensorRole::kStateZ, "blk.{}.attn_gate"},
    {TensorRole::kStateBeta, "blk.{}.ssm_beta"},
    {TensorRole::kStateStep, "blk.{}.ssm_alpha"},
    {TensorRole::kStateConv, "blk.{}.ssm_conv1d"},
    {.role = TensorRole::kStateStepBias, .pattern = "blk.{}.ssm_dt.bias", .bare = true},
    {.role = TensorRole::kStateA, .pattern = "blk.{}.ssm_a", .bare = true},
    {TensorRole::kStateNorm, "blk.{}.ssm_norm"},
    {TensorRole::kStateOut, "blk.{}.ssm_out"},
    in_runs(TensorRole::kQ, "blk.{}.attn_q", RowRuns::kPerGroup),
    in_runs(TensorRole::kQueryGate, "blk.{}.attn_q", RowRuns::kPerGroup),
    {TensorRole::kPreMlpNorm, "blk.{}.post_attention_norm"},
};
constexpr NameMap kGguf35Names{.entries = kGguf35Entries,
                               .prefixes = kGgufPrefixes,
                               .ignored = kIgnoredTensors,
                               .base = &kGgufExpertNames,
                               .ignores_later_layers = true};

// For Qwen3-Next, whose value heads are grouped by key head.
constexpr std::string_view kGgufBa = "blk.{}.ssm_ba";
constexpr NameMapEntry kGgufNextEntries[] = {
    in_runs(TensorRole::kStateBeta, kGgufBa, RowRuns::kPerGroup),
    in_runs(TensorRole::kStateStep, kGgufBa, RowRuns::kPerGroup),
};
constexpr NameMap kGgufNextNames{.entries = kGgufNextEntries,
                                 .prefixes = kGgufPrefixes,
                                 .ignored = kIgnoredTensors,
                                 .base = &kGguf35Names,
                                 .ignores_later_layers = true};

constexpr std::string_view kNextTypes[] = {"qwen3_next"};
constexpr std::string_view k35Types[] = {"qwen3_5_text", "qwen3_5"};
constexpr std::string_view k35MoeTypes[] = {"qwen3_5_moe_text", "qwen3_5_moe"};
constexpr LayerWord kWords[] = {{"linear_attention", kStateParts},
                                {"full_attention", kAttentionParts}};

constexpr ExpertRules kNextExperts{
    .router = {.num_experts = 512, .experts_per_token = 10},
    .intermediate_size = 512,
    .normalizes = true,
    .gguf_normalizes = true,
    .layers = ExpertLayers::kSparseStep,
    .shared = SharedExperts::kSize,
    .shared_default = 512,
    .has_shared_router = true,
};
constexpr ExpertRules k35Experts{
    .router = {.num_experts = 256, .experts_per_token = 8, .weight = RouterWeight::kNormalized},
    .intermediate_size = 512,
    .shared = SharedExperts::kSize,
    .shared_default = 512,
    .has_shared_router = true,
};

// Without layer_types, every full_attention_interval-th layer has attention.
void read_delta_net(const ConfigReader& reader, ModelConfig& config) {
  const int64_t interval = reader.integer("full_attention_interval", {1, 4096}, 4);
  if (!read_layer_types(reader, kWords, config)) {
    for (size_t i = 0; i < config.layer_parts.size(); ++i) {
      const bool is_full = (static_cast<int64_t>(i) + 1) % interval == 0;
      config.layer_parts[i] = is_full ? kAttentionParts : kStateParts;
    }
  }
  config.has_output_gate = reader.boolean("attn_output_gate", true);
  StateSpec& state = config.state;
  state = {.kind = StateKind::kDeltaRule,
           .conv_kernel = read_conv_kernel(reader, "linear_conv_kernel_dim", 4)};
  state.num_heads = static_cast<int32_t>(reader.integer("linear_num_value_heads", {1, 4096}, 32));
  state.num_key_heads = static_cast<int32_t>(reader.integer("linear_num_key_heads", {1, 4096}, 16));
  state.key_dim = reader.integer("linear_key_head_dim", {1, kMaxDeltaKeyDim}, 128);
  state.value_dim = reader.integer("linear_value_head_dim", {1, 1024}, 128);
  if (state.num_heads % state.num_key_heads != 0) {
    reader.fail(
        fmt::format("linear_num_value_heads: expected a multiple of linear_num_key_heads "
                    "{}, got {}",
                    state.num_key_heads, state.num_heads));
  }
  state.tiled_heads = reader.boolean("tiled_value_heads", false);
  state.gate = Gate::kSilu;
  state.has_norm = true;
  state.shared_norm = true;
  state.norm_group = state.value_dim;
  state.norm_eps = static_cast<float>(config.norm_eps);
}

constexpr FamilyDefaults kNextDefaults{.vocab_size = 151936,
                                       .hidden_size = 2048,
                                       .intermediate_size = 5632,
                                       .num_hidden_layers = 48,
                                       .num_attention_heads = 16,
                                       .num_key_value_heads = 2,
                                       .head_dim = 256,
                                       .max_position_embeddings = 32768,
                                       .partial_rotary_factor = 0.25};
constexpr FamilyDefaults k35Defaults{.vocab_size = 248320,
                                     .hidden_size = 4096,
                                     .intermediate_size = 12288,
                                     .num_hidden_layers = 32,
                                     .num_attention_heads = 16,
                                     .num_key_value_heads = 4,
                                     .head_dim = 256,
                                     .max_position_embeddings = 32768,
                                     .partial_rotary_factor = 0.25};

constexpr Family make_family(std::string_view name, std::span<const std::string_view> types,
                             const FamilyDefaults& defaults, const ExpertRules* experts,
                             const NameMap& names, std::string_view gguf_architecture = {}) {
  return {.name = name,
          .model_types = types,
          .gguf_architecture = gguf_architecture,
          .defaults = defaults,
          .has_sections_in_turn = true,
          .experts = experts,
          .qk_norm = QkNorm::kHead,
          .qkv_bias = BiasRule::kConfig,
          .o_bias = BiasRule::kConfig,
          .read_more = read_delta_net,
          .hf_names = names,
          .gguf_names = kGguf35Names};
}

}  // namespace

const Family& qwen3_next_family() {
  static constexpr Family family = [] {
    Family made = make_family("qwen3_next", kNextTypes, kNextDefaults, &kNextExperts, kNextNames,
                              "qwen3next");
    made.gguf_names = kGgufNextNames;
    return made;
  }();
  return family;
}

const Family& qwen3_5_family() {
  static constexpr Family family =
      make_family("qwen3_5", k35Types, k35Defaults, nullptr, k35Names, "qwen35");
  return family;
}

const Family& qwen3_5_moe_family() {
  static constexpr Family family =
      make_family("qwen3_5_moe", k35MoeTypes, k35Defaults, &k35Experts, k35Names, "qwen35moe");
  return family;
}

}  // namespace quire
