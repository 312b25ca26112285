// GPT-NeoX and Pythia: queries, keys and values in one tensor head by head, attention and MLP in
// parallel with a norm each, rope over a quarter of a head.
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kGptNeoxEntries[] = {
    {TensorRole::kTokenEmbedding, "embed_in"},
    {TensorRole::kFinalNorm, "final_layer_norm"},
    {TensorRole::kLmHead, "embed_out"},
    {TensorRole::kLmHead, "lm_head"},
    {TensorRole::kInputNorm, "layers.{}.input_layernorm"},
    {TensorRole::kQkv, "layers.{}.attention.query_key_value", false, QkvOrder::kPerKvHead},
    {TensorRole::kO, "layers.{}.attention.dense"},
    {TensorRole::kPreMlpNorm, "layers.{}.post_attention_layernorm"},
    {TensorRole::kUp, "layers.{}.mlp.dense_h_to_4h"},
    {TensorRole::kDown, "layers.{}.mlp.dense_4h_to_h"},
};
constexpr NamePrefix kGptNeoxPrefixes[] = {{"gpt_neox.", ""}, {"", ""}};
// The rotary and mask buffers in old checkpoints.
constexpr std::string_view kGptNeoxIgnored[] = {"rotary_emb.inv_freq", "attention.bias",
                                                "attention.masked_bias"};

constexpr std::string_view kGptNeoxTypes[] = {"gpt_neox"};
constexpr KeyAlias kGptNeoxAliases[] = {{"rms_norm_eps", "layer_norm_eps"},
                                        {"rope_theta", "rotary_emb_base"},
                                        {"partial_rotary_factor", "rotary_pct"}};

void read_gpt_neox(const ConfigReader& reader, ModelConfig& config) {
  if (!reader.boolean("use_parallel_residual", true))
    config.block.residual = ResidualStyle::kSequential;
}

}  // namespace

const Family& gpt_neox_family() {
  static constexpr Family family{
      .name = "gpt_neox",
      .model_types = kGptNeoxTypes,
      .gguf_architecture = "gptneox",
      .defaults = {.vocab_size = 50432,
                   .hidden_size = 6144,
                   .intermediate_size = 24576,
                   .num_hidden_layers = 44,
                   .num_attention_heads = 64,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-5,
                   .partial_rotary_factor = 0.25,
                   .activation = "gelu",
                   .attention_bias = true},
      .aliases = kGptNeoxAliases,
      .block = {.norm = NormKind::kLayer, .norm_bias = true, .residual = ResidualStyle::kParallel},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kAlways,
      .gated_mlp = false,
      .read_more = read_gpt_neox,
      .hf_names = {kGptNeoxEntries, kGptNeoxPrefixes, kGptNeoxIgnored},
      .gguf_names = kGgufNames,
  };
  return family;
}

}  // namespace quire
