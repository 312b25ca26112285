// gpt-oss: sinks in attention, biases everywhere, every other layer within a window, experts whose
// gate and up rows are interleaved on disk and whose activation is clamped.
#include "models/expert_names.h"
#include "models/family.h"

namespace quire {
namespace {

constexpr SharedRows kGateRows{.part = 0, .parts = 2, .interleaved = true};
constexpr SharedRows kUpRows{.part = 1, .parts = 2, .interleaved = true};
constexpr std::string_view kGptOssGateUp = "layers.{}.mlp.experts.gate_up_proj.{e}";
constexpr std::string_view kDown = "layers.{}.mlp.experts.down_proj.{e}";

// Experts in bfloat16 are stored with their inputs first, those in MXFP4 with their outputs first.
constexpr NameMapEntry kGptOssEntries[] = {
    {.role = TensorRole::kSinks, .pattern = "layers.{}.self_attn.sinks", .bare = true},
    {TensorRole::kRouter, "layers.{}.mlp.router"},
    {.role = TensorRole::kExpertGate,
     .pattern = kGptOssGateUp,
     .transposed = true,
     .rows = kGateRows},
    {.role = TensorRole::kExpertUp, .pattern = kGptOssGateUp, .transposed = true, .rows = kUpRows},
    {.role = TensorRole::kExpertDown, .pattern = kDown, .transposed = true},
    {.role = TensorRole::kExpertGate, .pattern = kGptOssGateUp, .rows = kGateRows},
    {.role = TensorRole::kExpertUp, .pattern = kGptOssGateUp, .rows = kUpRows},
    {.role = TensorRole::kExpertDown, .pattern = kDown},
};

constexpr std::string_view kGptOssTypes[] = {"gpt_oss"};
constexpr KeyAlias kGptOssAliases[] = {{"num_experts", "num_local_experts"},
                                       {"num_experts_per_tok", "experts_per_token"}};

constexpr ExpertRules kGptOssExperts{
    .router = {.num_experts = 128,
               .experts_per_token = 4,
               .weight = RouterWeight::kSoftmaxOfChosen},
    .router_bias = true,
    .expert_bias = true,
    .has_clamp = true,
};

}  // namespace

const Family& gpt_oss_family() {
  static constexpr Family family{
      .name = "gpt_oss",
      .model_types = kGptOssTypes,
      .gguf_architecture = "gpt-oss",
      .defaults = {.vocab_size = 201088,
                   .hidden_size = 2880,
                   .intermediate_size = 2880,
                   .num_hidden_layers = 36,
                   .num_attention_heads = 64,
                   .num_key_value_heads = 8,
                   .head_dim = 64,
                   .max_position_embeddings = 131072,
                   .sliding_window = 128,
                   .norm_eps = 1e-5,
                   .rope_theta = 150000.0,
                   .rope_truncates = false},
      .aliases = kGptOssAliases,
      .window_rule = WindowRule::kPattern,
      .window_pattern = 2,
      .has_sinks = true,
      .experts = &kGptOssExperts,
      .qkv_bias = BiasRule::kAlways,
      .o_bias = BiasRule::kAlways,
      .hf_names = {.entries = kGptOssEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kIgnoredTensors,
                   .base = &kLlamaNames},
      .gguf_names = kGgufPostAttentionNames,
  };
  return family;
}

}  // namespace quire
