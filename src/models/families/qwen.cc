// Qwen2 and 2.5 (biases of queries, keys and values), Qwen3 dense (norms of queries and keys
// instead), and the text models of Qwen2-VL, 2.5-VL and 3-VL, whose positions of text are ordinary
// (models/vision/ reads their towers).
#include "models/family.h"
#include "models/standard_names.h"

namespace quire {
namespace {

// MiMo is Qwen2 with additional layers that predict further tokens.
constexpr std::string_view kQwen2Types[] = {"qwen2", "mimo"};
constexpr std::string_view kQwen2Ignored[] = {
    "rotary_emb.inv_freq", "vision_tower.", "multi_modal_projector.", "vision_model.", "connector.",
    "image_newline",       "mtp_layers."};
constexpr std::string_view kQwen3Types[] = {"qwen3"};
constexpr std::string_view kQwen2VlTypes[] = {"qwen2_vl", "qwen2_vl_text", "qwen2_5_vl",
                                              "qwen2_5_vl_text"};
constexpr std::string_view kQwen3VlTypes[] = {"qwen3_vl_text", "qwen3_vl"};
constexpr std::string_view kVisualIgnored[] = {"rotary_emb.inv_freq", "visual."};
constexpr NameMap kVisualNames{
    .prefixes = kLlamaPrefixes, .ignored = kVisualIgnored, .base = &kLlamaNames};

}  // namespace

const Family& qwen2_family() {
  static constexpr Family family{
      .name = "qwen2",
      .model_types = kQwen2Types,
      .gguf_architecture = "qwen2",
      .defaults = {.vocab_size = 151936,
                   .hidden_size = 4096,
                   .intermediate_size = 22016,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 32,
                   .max_position_embeddings = 32768,
                   .sliding_window = 4096},
      .window_rule = WindowRule::kFromLayer,
      .qkv_bias = BiasRule::kAlways,
      .hf_names = {.prefixes = kLlamaPrefixes, .ignored = kQwen2Ignored, .base = &kLlamaNames},
      .gguf_names = kGgufNames,
  };
  return family;
}

const Family& qwen3_family() {
  static constexpr Family family{
      .name = "qwen3",
      .model_types = kQwen3Types,
      .gguf_architecture = "qwen3",
      .defaults = {.vocab_size = 151936,
                   .hidden_size = 4096,
                   .intermediate_size = 22016,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 32,
                   .head_dim = 128,
                   .max_position_embeddings = 32768,
                   .sliding_window = 4096},
      .window_rule = WindowRule::kFromLayer,
      .qk_norm = QkNorm::kHead,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
  };
  return family;
}

const Family& qwen2_vl_family() {
  static const Family family = [] {
    Family vl = qwen2_family();
    vl.name = "qwen2_vl";
    vl.model_types = kQwen2VlTypes;
    vl.gguf_architecture = "qwen2vl";
    vl.hf_names = kVisualNames;
    return vl;
  }();
  return family;
}

const Family& qwen3_vl_family() {
  static const Family family = [] {
    Family vl = qwen3_family();
    vl.name = "qwen3_vl";
    vl.model_types = kQwen3VlTypes;
    vl.gguf_architecture = "qwen3vl";
    vl.has_sections_in_turn = true;
    vl.defaults.max_position_embeddings = 128000;
    vl.defaults.rope_theta = 5e6;
    vl.hf_names = kVisualNames;
    return vl;
  }();
  return family;
}

}  // namespace quire
