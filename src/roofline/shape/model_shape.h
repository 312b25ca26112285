// A ModelShape is a decoder model as cost sees it: sizes alone, no weights and no names of
// families.
//
// It is read from the text of a Hugging Face config.json (parse_model_shape), or filled in by code
// that knows the fields. Layers of equal shape form one group, so that a step's cost is a sum over
// a handful of groups.
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

// An indexer chooses the top_k tokens that attention reads, by a key of its own for each token.
struct IndexShape {
  int32_t top_k = 0;      // 0: attention reads all that it sees
  int32_t num_heads = 0;  // 0: another layer's choice is read
  int32_t head_dim = 0;
  friend bool operator==(const IndexShape&, const IndexShape&) = default;
};

struct AttentionShape {
  int32_t num_heads = 0;       // Hq
  int32_t num_kv_heads = 0;    // Hkv
  int32_t head_dim = 0;        // D
  int32_t sliding_window = 0;  // tokens seen, the query included; 0: all
  bool shares_kv = false;      // keys and values are those of a layer before
  int32_t num_inputs = 1;      // rows of hidden_size that queries, keys and values are made of
  bool latent = false;         // `mla` says how; num_kv_heads and head_dim are unused
  LatentAttention mla;
  IndexShape index;  // with `latent`
  // Returns how many tokens a query reads at most; 0 says all.
  int32_t tokens_read() const { return index.top_k > 0 ? index.top_k : sliding_window; }
  bool any() const { return num_heads > 0; }  // else the layer has no attention
  double num_parameters(int64_t hidden_size) const;
  double kv_elements_per_token() const;  // of one layer
  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

// A StateShape is a mixer that carries a state of fixed size from token to token (Mamba, Gated
// DeltaNet, short convolutions): an input projection, a convolution and a recurrence, an output
// projection.
struct StateShape {
  int64_t in_rows = 0;          // of the input projection; 0: the layer keeps no state
  int64_t inner_size = 0;       // columns of the output projection
  int64_t middle_elements = 0;  // weights of small products between the two
  int64_t num_floats = 0;       // kept of a sequence: inputs of the convolution, and the state
  int64_t token_flops = 0;      // of the convolution and the recurrence
  bool any() const { return in_rows > 0; }
  double num_parameters(int64_t hidden_size) const;
  friend bool operator==(const StateShape&, const StateShape&) = default;
};

struct FfnShape {
  int32_t intermediate_size = 0;  // F of the dense part: 0 in a layer of routed experts alone
  int32_t num_matrices = 3;       // 3 gated (gate, up, down), 2 plain
  // A mixture of experts has these; with num_experts 0 the layer is dense.
  int32_t num_experts = 0;
  int32_t experts_per_token = 0;
  int32_t expert_intermediate_size = 0;
  int32_t shared_intermediate_size = 0;  // of all shared experts together, which every token uses
  bool moe() const { return num_experts > 0; }
  bool any() const { return intermediate_size > 0 || moe(); }  // else the layer has none
  double num_expert_parameters(int64_t hidden_size) const;     // of one routed expert
  friend bool operator==(const FfnShape&, const FfnShape&) = default;
};

// A layer has attention, a state or both, and a feed-forward part, or some of these.
struct LayerGroup {
  int32_t num_layers = 0;
  AttentionShape attention;
  FfnShape ffn;
  StateShape state;
  // Weights of further linear maps of one layer: side branches, streams, inputs of its own.
  int64_t more_elements = 0;
  int64_t table_elements = 0;  // of a table that a token takes one row of
  double num_mixer_parameters(int64_t hidden_size) const;  // of attention and state
  bool is_like(const LayerGroup& other) const;             // but for the number of layers
};

// What the layers of a decoder look at beside its tokens: rows that an encoder has made of a source, a
// text, a recording or a picture, of which each layer keeps keys and values.
struct SourceShape {
  int32_t num_heads = 0;  // of each layer's attention to them; 0: there is no source
  int32_t head_dim = 0;
  int32_t num_kv_heads = 0;  // 0: as many as heads
  // Layers that look at them, which then have no other attention; 0: all do, beside what they have.
  int32_t num_layers = 0;
  int64_t row_size = 0;
  int64_t encoder_size = 0;  // E of the encoder; 0: row_size
  int32_t max_rows = 0;      // of the longest source
  bool is_prompt = false;  // sources are prompts, which no decoder reads; else all are of max_rows
  std::vector<LayerGroup> encoder;  // all of whose rows see each other
  int64_t front_elements = 0;       // weights of what comes before its layers (convolutions)
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

// What reads pictures for a model whose tokens some of their embeddings are. A picture is encoded by
// itself: rows of patches, which see each other, then one embedding of so many rows.
struct TowerShape {
  int64_t width = 0;  // E of the encoder; 0: the model reads no pictures
  std::vector<LayerGroup> encoder =
      {};  // a sliding window is one of the picture: rows that one sees
  int32_t rows_per_embedding = 1;
  int64_t patch_elements = 0;      // weights of what makes a row
  int64_t projector_elements = 0;  // weights of what makes an embedding
  int32_t max_embeddings = 0;      // of the largest item
  bool is_bidirectional = false;   // tokens of a picture are computed in one step
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

  NumberFormat weights;                           // of the layers' linear maps
  NumberFormat expert_weights;                    // of routed experts
  NumberFormat head_weights;                      // lm_head and embedding
  NumberFormat activations{16, MathType::kBf16};  // between kernels
  NumberFormat kv{16, MathType::kBf16};           // in the cache

  int32_t num_layers() const;
  int32_t num_source_layers() const;      // that look at a source, where there is one
  int64_t num_parameters() const;         // embeddings, norms left out
  int64_t num_active_parameters() const;  // used by one token, of a source or of what is made of it
  int64_t num_decoder_parameters() const;  // num_parameters() without encoder and tower
  // Returns the memory of one token in the caches of all layers, before any sharding.
  double kv_bytes_per_token() const;
  // Returns the memory of one sequence's states in all layers, before any sharding.
  double state_bytes_per_sequence() const;
  // Returns the memory of one row of a source, its keys and values in all layers.
  double source_bytes_per_row() const;
  // Returns how many tokens queries read at most, each number once, ascending, without 0; StepShape
  // sums contexts under each.
  std::vector<int32_t> windows() const;
  // Returns an error that names the first field that makes no sense.
  Status validate() const;
};

// Parallelism says how the model is cut over devices. Attention and FFN are cut tp ways; experts ep
// ways where ep > 1 (whole experts), else tp ways; layers pp ways; dp replicas of attention share
// experts when dp > 1.
struct Parallelism {
  int32_t tp = 1;
  int32_t pp = 1;
  int32_t ep = 1;
  int32_t dp = 1;
  int32_t num_devices() const { return tp * pp * dp; }
  Status validate(const ModelShape& model) const;
};

// Reads what a config.json says beside its layers: sizes, formats, the head.
Result<ModelShape> parse_model_sizes(std::string_view config_json);

// Reads the text of a config.json: dense, GQA, sliding windows (layer_types,
// sliding_window_pattern, max_window_layers), MoE, MLA, quantization_config, nested text_config.
// Formats that the file does not state are bfloat16. The text is hostile until checked: size, depth
// and every number. kUnimplemented: a family whose layers keep states, which goes by what serves it
// (facade/model_shape_file.h).
Result<ModelShape> parse_model_shape(std::string_view config_json);

// Writes and reads a description of Quire's own that keeps every field, for step logs: {"name",
// "hidden_size", …, "groups": [{"num_layers", "attention": {…}, "ffn": {…}, "state": {…}}]}.
std::string to_json(const ModelShape& model);
Result<ModelShape> parse_model_description(std::string_view json, std::string_view where);

// Returns the model with all weights (or only the KV cache) stored in another format, as a what-if.
ModelShape with_weights(ModelShape model, NumberFormat format);
ModelShape with_kv(ModelShape model, NumberFormat format);

}  // namespace quire
