// ModelConfig is the checked configuration of a checkpoint: one struct for every family and both
// file formats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/ids.h"
#include "base/result.h"
#include "models/expert_rules.h"
#include "models/family.h"
#include "models/state_rules.h"
#include "nn/decoder_spec.h"
#include "nn/spec/rope.h"
#include "weights/files/model_files.h"
#include "weights/files/tensor_source.h"
#include "weights/quant/quant_config.h"

namespace quire {

enum class CheckpointFormat : uint8_t { kHuggingFace, kGguf };

struct ModelConfig {
  const Family* family = nullptr;  // one of all_families(), never null after reading
  CheckpointFormat format = CheckpointFormat::kHuggingFace;

  // The fields have the names of config.json.
  int64_t vocab_size = 0;
  int64_t unsaid_tokens = 0;  // DecoderSpec::unsaid_tokens
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t full_head_dim = 0;                 // of layers without a window; 0: head_dim
  int64_t full_kv_heads = 0;                 // likewise; 0: num_key_value_heads
  std::vector<int64_t> ffn_sizes = {};       // per layer; empty: intermediate_size of all
  std::vector<int32_t> kv_layers = {};       // AttentionSpec::kv_layer per layer; empty: all -1
  std::vector<int64_t> layer_heads = {};     // query heads per layer; empty: num_attention_heads
  std::vector<int64_t> layer_kv_heads = {};  // likewise; empty: num_key_value_heads
  int64_t max_position_embeddings = 0;
  // The longest sequence that is served: beyond it, the model attends in a way that Quire does not
  // support; 0: no such limit.
  int64_t served_length = 0;
  double norm_eps = 1e-6;
  Activation activation = Activation::kSilu;
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool gated_mlp = true;
  bool tie_word_embeddings = false;
  BlockStyle block;
  std::optional<QkNorm> qk_norm;
  bool plain_qk_norm = false;  // only of layers that rotate; norms without weights
  bool value_norm = false;     // AttentionSpec::value_norm
  double qkv_clip = 0.0;       // AttentionSpec::qkv_clip
  LayerInputSpec layer_inputs;
  StreamsSpec streams;
  std::vector<std::optional<float>> gate_cuts = {};  // FfnSpec::gate_cut per layer; empty: none
  bool layer_scale = false;                          // DecoderSpec::layer_scale
  PositionKind positions = PositionKind::kRope;
  std::vector<int32_t> layer_windows;   // per layer: tokens seen, 0 = all
  bool windows_are_chunks = false;      // AttentionSpec::window_is_chunk
  bool full_layers_see_ends = true;     // AttentionSpec::sees_ends of layers without a window
  std::vector<bool> layer_rope;         // per layer, with PositionKind::kRope: whether it rotates
  std::vector<LayerParts> layer_parts;  // per layer
  std::vector<SharedBlockSpec> shared_blocks = {};  // per layer; empty: none
  StateSpec state;                                  // of the layers that have one
  RopeConfig rope;                                  // unused without PositionKind::kRope
  RopeConfig local_rope;  // of layers with a window, with Family::has_local_rope
  std::optional<QueryScale> query_scale;
  // Whether query_scale applies to every layer; false: only to those without rope.
  bool scales_rotated_queries = true;
  double alibi_scale = 1.0;               // factor on the slopes of PositionKind::kAlibi
  double alibi_bias_max = 8.0;            // the steepest slope is 2^-(bias_max / heads)
  std::optional<double> attention_scale;  // factor on scores; not set: head_dim^-0.5
  bool scale_by_inverse_layer = false;    // layer i, counted from 1, divides attention scores by i
  double embedding_multiplier = 1.0;
  double residual_multiplier = 1.0;  // factor on the outputs of attention and MLP
  double logit_multiplier = 1.0;
  std::optional<double> attn_logit_softcapping;
  std::optional<double> final_logit_softcapping;
  double attention_output_scale = 1.0;
  bool has_output_gate = false;  // of attention
  bool has_inner_norms = false;  // AttentionSpec::has_output_norm and FfnSpec::has_inner_norm
  bool norms_experts = false;    // FfnSpec::has_output_norm of layers with experts
  double ffn_gate_scale = 1.0;
  double ffn_inner_scale = 1.0;
  bool head_bias = false;
  bool logit_bias = false;  // DecoderSpec::logit_bias
  ExpertsConfig experts;
  // If any(), the model has cross-attention to an encoder's output.
  CrossSpec cross;
  // By layer: whether it has cross-attention; empty: all layers have.
  std::vector<bool> source_layers = {};
  std::vector<TokenId> decoder_start = {};  // first tokens of the decoder, if its source is a text
  LatentSpec latent;                        // any(): of every layer's attention
  bool is_bidirectional = false;
  RelativeBiasSpec relative_bias;
  bool first_layer_norm = true;  // on the input of the first layer's attention
  int64_t num_token_types = 0;
  int64_t max_seq_length = 0;  // texts are cut to it before they are embedded; 0: not stated
  // Set for draft models (models/drafting/draft_head.h).
  DraftInputSpec draft_input = {};
  int64_t head_size = 0;  // DecoderSpec::head_size
  int64_t draft_layer =
      -1;  // the layer that its one is like; -1: it has those of the configuration
  // If any(), the model computes embeddings or scores instead of text.
  PoolingSpec pooling = {};
  std::vector<std::string> labels = {};  // of a classifier
  NameMap names = {};                    // how the checkpoint names its tensors
  QuantConfig quantization;  // from config.json; GGUF files state the type of each tensor
  IndexSpec index;           // any(): every layer attends to chosen tokens only
  std::vector<bool> index_layers = {};  // per layer: whether it has an indexer; empty: all have

  // Returns the longest sequence that the configuration allows: max_position_embeddings, stretched
  // by linear, dynamic and YaRN scaling.
  int64_t max_model_len() const;
};

// Reads config.json, or the metadata of the GGUF file. `source` has the model's tensors, for what
// only they tell: a head that differs from the token embedding is used, whatever
// tie_word_embeddings says. Errors name the file, the key, what was expected and what was found.
Result<ModelConfig> read_model_config(const ModelFiles& files, const TensorSource& source);

// The part of read_model_config() that reads the text of config.json.
Result<ModelConfig> parse_model_config(std::string_view text);

// Returns the spec of the decoder for sequences of up to `max_model_len` tokens and weights of type
// `dtype` (Gemma rounds its embedding scale to it).
Result<DecoderSpec> make_decoder_spec(const ModelConfig& config, int64_t max_model_len,
                                      DType dtype);

inline const NameMap& checkpoint_names(const ModelConfig& config) { return config.names; }

}  // namespace quire
