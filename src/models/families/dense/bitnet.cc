// BitNet b1.58: Llama's layers with a norm before the last projection of attention and of the MLP,
// made for weights of -1, 0 and 1 and activations of eight bits (QuantMethod::kBitNet).
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr std::string_view kBitnetTypes[] = {"bitnet"};
constexpr NameMapEntry kBitnetEntries[] = {
    {TensorRole::kHeadsNorm, "layers.{}.self_attn.attn_sub_norm"},
    {TensorRole::kHeadsNorm, "layers.{}.self_attn.inner_attn_ln"},
    {TensorRole::kInnerNorm, "layers.{}.mlp.ffn_sub_norm"},
    {TensorRole::kInnerNorm, "layers.{}.mlp.ffn_layernorm"},
};
constexpr NameMapEntry kBitnetGgufEntries[] = {
    {TensorRole::kHeadsNorm, "blk.{}.attn_sub_norm"},
    {TensorRole::kInnerNorm, "blk.{}.ffn_sub_norm"},
};

void read_bitnet(const ConfigReader& reader, ModelConfig& config) {
  config.has_inner_norms = true;
  // The first models store floats, which are rounded whenever they are used.
  if (reader.has("weight_bits")) {
    reader.fail(
        fmt::format("weight_bits: expected none, as of weights that are stored packed, got {}",
                    reader.integer("weight_bits", {0, 64})));
  }
}

}  // namespace

const Family& bitnet_family() {
  static constexpr Family family{
      .name = "bitnet",
      .model_types = kBitnetTypes,
      .gguf_architecture = "bitnet",
      .defaults = {.vocab_size = 128256,
                   .hidden_size = 2560,
                   .intermediate_size = 6912,
                   .num_hidden_layers = 30,
                   .num_attention_heads = 20,
                   .num_key_value_heads = 5,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-5,
                   .rope_theta = 500000.0,
                   .activation = "relu2"},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_bitnet,
      .hf_names = {.entries = kBitnetEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kIgnoredTensors,
                   .base = &kLlamaNames},
      .gguf_names = {.entries = kBitnetGgufEntries,
                     .prefixes = kGgufPrefixes,
                     .ignored = kIgnoredTensors,
                     .base = &kGgufNames},
      .gguf_activation = "silu",
  };
  return family;
}

}  // namespace quire
