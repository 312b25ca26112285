// ModelShape: a decoder model for the cost model. It has only sizes, no weights and no names of
// families.
//
// It is parsed from a Hugging Face config.json (parse_model_shape), or filled in by code. Layers of
// equal shape form one group, so that a step's cost is a sum over a handful of groups.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "roofline/hardware/number_format.h"

namespace quire {

// Multi-head latent attention caches one latent per token instead of K and V per head.
struct LatentAttention {
  int32_t q_lora_rank = 0;  // 0: the query is projected directly
  int32_t kv_lora_rank = 0;
  int32_t qk_nope_head_dim = 0;
  int32_t qk_rope_head_dim = 0;
  int32_t v_head_dim = 0;
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

// An indexer chooses the top_k tokens that attention reads, by an additional key of each token.
struct IndexShape {
  int32_t top_k = 0;      // 0: attention reads all tokens that it sees
  int32_t num_heads = 0;  // 0: the choice of another layer is used
  int32_t head_dim = 0;
  friend bool operator==(const IndexShape&, const IndexShape&) = default;
};

struct AttentionShape {
  int32_t num_heads = 0;       // Hq
  int32_t num_kv_heads = 0;    // Hkv
  int32_t head_dim = 0;        // D
  int32_t sliding_window = 0;  // tokens seen, including the query; 0: all
  bool shares_kv = false;      // keys and values are those of an earlier layer
  int32_t num_inputs = 1;      // rows of hidden_size from which queries, keys and values are made
  bool latent = false;         // latent attention, see `mla`; num_kv_heads and head_dim are unused
  LatentAttention mla;
  IndexShape index;  // if `latent`
  // Returns the most tokens that a query reads; 0: all.
  int32_t tokens_read() const { return index.top_k > 0 ? index.top_k : sliding_window; }
  bool any() const { return num_heads > 0; }  // false: the layer has no attention
  double num_parameters(int64_t hidden_size) const;
  double kv_elements_per_token() const;  // per layer
  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

// A mixer that carries a state of fixed size from token to token (Mamba, Gated DeltaNet, short
// convolutions): an input projection, a convolution and a recurrence, and an output projection.
struct StateShape {
  int64_t in_rows = 0;          // of the input projection; 0: the layer keeps no state
  int64_t inner_size = 0;       // columns of the output projection
  int64_t middle_elements = 0;  // weights of small products between the two projections
  int64_t num_floats = 0;       // kept per sequence: inputs of the convolution, and the state
  int64_t token_flops = 0;      // of the convolution and the recurrence
  bool any() const { return in_rows > 0; }
  double num_parameters(int64_t hidden_size) const;
  friend bool operator==(const StateShape&, const StateShape&) = default;
};

struct FfnShape {
  int32_t intermediate_size = 0;  // F of the dense part; 0 in a layer with only routed experts
  int32_t num_matrices = 3;       // 3: gated (gate, up, down), 2: plain
  // A mixture of experts; num_experts 0: the layer is dense.
  int32_t num_experts = 0;
  int32_t experts_per_token = 0;
  int32_t expert_intermediate_size = 0;
  int32_t shared_intermediate_size = 0;  // of all shared experts together, which every token uses
  bool moe() const { return num_experts > 0; }
  bool any() const { return intermediate_size > 0 || moe(); }  // false: the layer has none
  double num_expert_parameters(int64_t hidden_size) const;     // of one routed expert
  friend bool operator==(const FfnShape&, const FfnShape&) = default;
};

// Layers with attention, a state or both, and a feed-forward part, or only some of these.
struct LayerGroup {
  int32_t num_layers = 0;
  AttentionShape attention;
  FfnShape ffn;
  StateShape state;
  // Weights of further products per layer: side branches, streams, inputs of the layer's own.
  int64_t more_elements = 0;
  int64_t table_elements = 0;  // of a table from which each token takes one row
  double num_mixer_parameters(int64_t hidden_size) const;  // of attention and state
  bool is_like(const LayerGroup& other) const;             // equal except for the number of layers
};

// The sources that a decoder's layers attend to beside its tokens: rows that an encoder has made of
// a text, a recording or a picture, and of which each layer keeps keys and values.
struct SourceShape {
  int32_t num_heads = 0;  // of each layer's attention to sources; 0: no sources
  int32_t head_dim = 0;
  int32_t num_kv_heads = 0;  // 0: the same as num_heads
  // Layers that attend to sources, and to nothing else; 0: all layers do, beside their other
  // attention.
  int32_t num_layers = 0;
  int64_t row_size = 0;
  int64_t encoder_size = 0;  // E of the encoder; 0: row_size
  int32_t max_rows = 0;      // of the longest source
  bool is_prompt = false;  // sources are prompts, which no decoder reads; false: all have max_rows
  std::vector<LayerGroup> encoder;  // its rows all see each other
  int64_t front_elements = 0;       // weights before the encoder's layers (convolutions)
  bool any() const { return num_heads > 0; }
  double rows() const { return static_cast<double>(num_heads) * head_dim; }
  double kv_rows() const {
    return static_cast<double>(num_kv_heads > 0 ? num_kv_heads : num_heads) * head_dim;
  }
  int64_t encoder_width() const { return encoder_size > 0 ? encoder_size : row_size; }
  bool is_read_by(const LayerGroup& group) const {
    return any() && (num_layers == 0 || !group.attention.any());
  }
  double num_encoder_parameters() const;
  double num_parameters(int64_t hidden_size) const;  // of one layer's attention to a source
};

// A vision tower, which makes embeddings that stand for tokens of the model. Each picture is
// encoded separately: rows of patches, which see each other; several rows make one embedding.
struct TowerShape {
  int64_t width = 0;  // E of the encoder; 0: the model reads no pictures
  std::vector<LayerGroup> encoder =
      {};  // a sliding window is one of the picture: the rows that a row sees
  int32_t rows_per_embedding = 1;
  int64_t patch_elements = 0;      // weights that make a row
  int64_t projector_elements = 0;  // weights that make an embedding
  int32_t max_embeddings = 0;      // of the largest item
  bool is_bidirectional = false;   // the tokens of a picture are computed in one step
  bool any() const { return width > 0; }
  double num_parameters() const;
};

struct ModelShape {
  std::string name;
  int64_t hidden_size = 0;  // E
  int64_t vocab_size = 0;   // V
  int64_t max_model_len = 0;
  bool tied_head = false;  // head and token embedding are one matrix (in memory, not in traffic)
  std::vector<LayerGroup> groups;
  SourceShape source;
  TowerShape tower;

  NumberFormat weights;                           // of the layers' matrices
  NumberFormat expert_weights;                    // of routed experts
  NumberFormat head_weights;                      // lm_head and embedding
  NumberFormat activations{16, MathType::kBf16};  // between kernels
  NumberFormat kv{16, MathType::kBf16};           // in the cache

  int32_t num_layers() const;
  int32_t num_source_layers() const;       // layers that attend to a source, if there are sources
  int64_t num_parameters() const;          // embeddings included, norms left out
  int64_t num_active_parameters() const;   // used by one token, of a source or of the output
  int64_t num_decoder_parameters() const;  // num_parameters() without encoder and tower
  // Returns the memory of one token in the caches of all layers, before sharding.
  double kv_bytes_per_token() const;
  // Returns the memory of one sequence's states in all layers, before sharding.
  double state_bytes_per_sequence() const;
  // Returns the memory of one row of a source: its keys and values in all layers.
  double source_bytes_per_row() const;
  // Returns the different values of tokens_read() of the layers, ascending, without 0; StepShape
  // sums contexts within each.
  std::vector<int32_t> windows() const;
  // Returns an error that names the first field that is invalid.
  Status validate() const;
};

// How the model is divided among devices: attention and FFN among tp ranks; whole experts among ep
// ranks if ep > 1, else parts of each among tp ranks; layers among pp stages. With dp > 1, dp
// replicas of attention share experts.
struct Parallelism {
  int32_t tp = 1;
  int32_t pp = 1;
  int32_t ep = 1;
  int32_t dp = 1;
  int32_t num_devices() const { return tp * pp * dp; }
  Status validate(const ModelShape& model) const;
};

// Parses a config.json except its layers: sizes, formats, the head.
Result<ModelShape> parse_model_sizes(std::string_view config_json);

// Parses a config.json: dense, GQA, sliding windows (layer_types, sliding_window_pattern,
// max_window_layers), MoE, MLA, quantization_config, nested text_config. Formats that the file does
// not give are bfloat16. The text is not trusted: size, depth and every number are checked.
// kUnimplemented: a family whose layers keep states, whose shape comes from the code that serves it
// (facade/model_shape_file.h).
Result<ModelShape> parse_model_shape(std::string_view config_json);

// Writes and reads Quire's own description with every field, for step logs: {"name", "hidden_size",
// …, "groups": [{"num_layers", "attention": {…}, "ffn": {…}, "state": {…}}]}.
std::string to_json(const ModelShape& model);
Result<ModelShape> parse_model_description(std::string_view json, std::string_view where);

// Returns the model with all weights (or only the KV cache) in another format, to compare formats.
ModelShape with_weights(ModelShape model, NumberFormat format);
ModelShape with_kv(ModelShape model, NumberFormat format);

}  // namespace quire
