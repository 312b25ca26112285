// Phi-3 and Phi-3.5 mini: q, k, v and gate, up stored as one tensor each.
#include "models/family.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kPhi3Names[] = {
    {TensorRole::kQkv, "layers.{}.self_attn.qkv_proj"},
    {TensorRole::kGateUp, "layers.{}.mlp.gate_up_proj"},
};

constexpr std::string_view kPhi3Types[] = {"phi3"};

}  // namespace

const Family& phi3_family() {
  static constexpr Family family{
      .name = "phi3",
      .model_types = kPhi3Types,
      .gguf_architecture = "phi3",
      .defaults = {.vocab_size = 32064,
                   .hidden_size = 3072,
                   .intermediate_size = 8192,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 4096,
                   .norm_eps = 1e-5},
      .window_rule = WindowRule::kAll,
      .hf_names = {kPhi3Names, kLlamaPrefixes, kIgnoredTensors, 0.0f, &kLlamaNames},
      .gguf_names = kGgufGateUpNames,
  };
  return family;
}

}  // namespace quire
