// GPT-J and CodeGen: one LayerNorm, attention and MLP in parallel, rope on pairs over the first
// dimensions of a head, biases only in the MLP and the head.
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kGptjEntries[] = {
    {TensorRole::kTokenEmbedding, "wte"}, {TensorRole::kFinalNorm, "ln_f"},
    {TensorRole::kLmHead, "lm_head"},     {TensorRole::kInputNorm, "h.{}.ln_1"},
    {TensorRole::kQ, "h.{}.attn.q_proj"}, {TensorRole::kK, "h.{}.attn.k_proj"},
    {TensorRole::kV, "h.{}.attn.v_proj"}, {TensorRole::kO, "h.{}.attn.out_proj"},
    {TensorRole::kUp, "h.{}.mlp.fc_in"},  {TensorRole::kDown, "h.{}.mlp.fc_out"},
};
constexpr NamePrefix kGptjPrefixes[] = {{"transformer.", ""}, {"", ""}};
// The causal masks in old checkpoints.
constexpr std::string_view kGptjIgnored[] = {".attn.bias", ".attn.masked_bias",
                                             ".attn.causal_mask"};
constexpr NameMap kGptjNames{kGptjEntries, kGptjPrefixes, kGptjIgnored};

// The rows of queries, values and keys are in four parts, because the models were trained on four
// cores.
constexpr NameMapEntry kCodegenEntries[] = {
    {TensorRole::kQkv, "h.{}.attn.qkv_proj", false, QkvOrder::kQueryValueKey}};
constexpr NameMap kCodegenNames{kCodegenEntries, kGptjPrefixes, kGptjIgnored, 0.0f, &kGptjNames};

constexpr std::string_view kGptjTypes[] = {"gptj"};
constexpr std::string_view kCodegenTypes[] = {"codegen"};
constexpr KeyAlias kGptjAliases[] = {
    {"hidden_size", "n_embd"},
    {"num_hidden_layers", "n_layer"},
    {"num_attention_heads", "n_head"},
    {"max_position_embeddings", "n_positions"},
    {"intermediate_size", "n_inner"},
    {"hidden_act", "activation_function"},
    {"rms_norm_eps", "layer_norm_epsilon"},
};

constexpr FamilyDefaults kDefaults{.vocab_size = 50400,
                                   .hidden_size = 4096,
                                   .intermediate_ratio = 4,
                                   .num_hidden_layers = 28,
                                   .num_attention_heads = 16,
                                   .max_position_embeddings = 2048,
                                   .norm_eps = 1e-5,
                                   .activation = "gelu_new"};

constexpr BlockStyle kGptjBlock{
    .norm = NormKind::kLayer, .norm_bias = true, .residual = ResidualStyle::kParallelOneNorm};

void read_gptj(const ConfigReader& reader, ModelConfig&) {
  // Without rotary_dim, these models rotate with the frequencies of the whole hidden state, which
  // Quire does not support.
  if (!reader.has("rotary_dim")) reader.fail("rotary_dim: expected a number, got nothing");
}

void read_codegen(const ConfigReader& reader, ModelConfig& config) {
  read_gptj(reader, config);
  if (config.num_attention_heads % 4 != 0) {
    reader.fail(fmt::format("num_attention_heads: expected a multiple of 4, got {}",
                            config.num_attention_heads));
  }
}

}  // namespace

const Family& gptj_family() {
  static constexpr Family family{
      .name = "gptj",
      .model_types = kGptjTypes,
      .defaults = kDefaults,
      .aliases = kGptjAliases,
      .rope_style = RopeStyle::kInterleaved,
      .block = kGptjBlock,
      .mlp_bias = BiasRule::kAlways,
      .head_bias = true,
      .gated_mlp = false,
      .read_more = read_gptj,
      .hf_names = kGptjNames,
  };
  return family;
}

const Family& codegen_family() {
  static constexpr Family family{
      .name = "codegen",
      .model_types = kCodegenTypes,
      .defaults = kDefaults,
      .aliases = kGptjAliases,
      .rope_style = RopeStyle::kInterleaved,
      .block = kGptjBlock,
      .mlp_bias = BiasRule::kAlways,
      .head_bias = true,
      .gated_mlp = false,
      .read_more = read_codegen,
      .hf_names = kCodegenNames,
  };
  return family;
}

}  // namespace quire
