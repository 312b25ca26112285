// A NameMap says how a checkpoint names the tensors of a decoder, with one table per family and
// file format.
//
//   constexpr NameMapEntry kNames[] = {{TensorRole::kQ, "layers.{}.self_attn.q_proj"}, …};
//   tensor_name(map, TensorRole::kQ, 3, "weight")   // "model.layers.3.self_attn.q_proj.weight"
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// A TensorRole is what a tensor is used for. A fused role holds the rows of its parts one after the
// other.
enum class TensorRole : uint8_t {
  kTokenEmbedding,
  kPositionEmbedding,
  kTokenTypeEmbedding,  // [2, E]: for the first and the second text of a pair (BERT)
  kRelativeBias,        // [buckets, heads]: added to attention scores (nn/spec/relative_bias.h)
  kEmbeddingNorm,       // on the embedding, before the first layer
  kFinalNorm,
  kLmHead,
  kLogitBias,  // [V]: added to logits
  kInputNorm,
  kQkv,
  kQ,
  kK,
  kV,
  kO,
  kQNorm,
  kKNorm,
  kHeadsNorm,          // on the input of attention's output projection
  kPostAttentionNorm,  // on the attention's output, before the residual add
  kPreMlpNorm,
  kPostMlpNorm,  // on the MLP's output, before the residual add
  kGateUp,
  kGate,
  kUp,         // the only input projection of an MLP without a gate
  kInnerNorm,  // on the input of the down projection
  kDown,
  kXieluP,  // [1] each: the parameters of an activation (kernels/api/activation.h)
  kXieluN,
  kSinks,             // one more attention score per head
  kRouter,            // [X, E]: gives one logit per expert
  kRouterCorrection,  // [X]: added to the scores when experts are chosen, not to their weights
  kExpertGate,        // the gate of one expert; "{e}" in the pattern stands for its number
  kExpertUp,
  kExpertDown,
  kSharedGate,  // the gate of the MLP that every token of a layer of experts goes through
  kSharedUp,
  kSharedDown,
  kSharedRouter,  // [1, E]: gives the factor of that MLP for a token
  // Experts that run beside an MLP, each side with norms of its own (nn/decoder_spec.h):
  kRouterNorm,     // on the router's input
  kExpertScale,    // [X]: factors of the routing weights
  kPreExpertNorm,  // on the experts' input
  kPostExpertNorm,
  kPostDenseNorm,  // on the output of the MLP beside them
  // The extra input that every layer has (nn/decoder_spec.h):
  kLayerTable,       // [V, layers * P]
  kLayerProjection,  // [layers * P, E]
  kLayerProjectionNorm,
  kLayerInputGate,  // [P, E]
  kLayerInputUp,    // [E, P]
  kLayerInputNorm,
  kLayerScale,  // [1]: the factor of the residual stream behind a layer
  kQueryGate,   // [Hq * D, E]: the gate of the attention's output
  // Several residual streams (nn/spec/streams_spec.h); "{e}" stands for the number of a stream,
  // counted from 0 for the second stream:
  kStreamIn,          // [E, E]: from the embedding to the stream
  kStreamOut,         // [E, E]: from the stream to its part of the final state
  kStreamRouterNorm,  // on the router's input
  kStreamRouter,      // [S, E]
  kStreamPredict,     // [S * S, S]: from the router to the coefficients before a layer
  kStreamCorrect,     // [S, S]: from the router to the coefficients behind a layer
  kStreamScale,       // [E]: factors of the stream that gates the layer's extra input
  kLaurelDown,        // [R, E]
  kLaurelUp,          // [E, R]
  kLaurelNorm,
  // A transformer block that several layers share (nn/spec/shared_block_spec.h); "{e}" stands for
  // the number of one of its uses:
  kPairNorm,         // [2 E]: on the residual stream and the embedding beside it
  kBlockOut,         // [E, E]
  kUpdateQueryDown,  // [r, 2 E]: a use's low-rank update of the block's matrices
  kUpdateQueryUp,    // [Hq * D, r]
  kUpdateKeyDown,
  kUpdateKeyUp,
  kUpdateValueDown,
  kUpdateValueUp,
  kUpdateGateDown,  // [r, E]: to gate and up together
  kUpdateGateUp,    // [2 F, r]
  // Latent attention (nn/decoder_spec.h):
  kQueryDown,  // from the hidden state to the queries' latent
  kQueryDownNorm,
  kQueryUp,
  kLatentDown,  // to the latent of keys and values, followed by the rotated key
  kLatentNorm,
  kLatentKeyUp,    // [R, N] of one head, whose number stands for "{e}" (weights/latent_heads.h)
  kLatentValueUp,  // [V, R], likewise
  // Cross-attention to an encoder's output (nn/spec/cross_spec.h):
  kCrossNorm,
  kCrossQ,
  kCrossK,
  kCrossV,
  kCrossO,
  kCrossQNorm,
  kCrossKNorm,
  kCrossGate,     // [1]
  kCrossMlpGate,  // [1]: gates the MLP behind the cross-attention
  // A mixer with a state (nn/spec/state_spec.h):
  kStateIn,  // the input projection of all parts together
  kStateQ,
  kStateK,
  kStateV,
  kStateZ,         // the gate of the output
  kStateBeta,      // how much of a token enters the state
  kStateStep,      // how far a token moves the state
  kStateStepDown,  // kStateStep as two narrow matrices
  kStateStepUp,
  kStateGateDown,  // kStateZ as two narrow matrices
  kStateGateUp,
  kStateConv,  // taps and bias of the convolution
  kStateConvQ,
  kStateConvK,
  kStateConvV,
  kStateX,  // from the convolved channels to the step, B and C
  kStateStepBias,
  kStateStepNorm,  // norms of the step, B and C
  kStateBNorm,
  kStateCNorm,
  kStateA,
  kStateD,
  kStateNorm,  // on the output
  kStateOut,
  // A decoder that drafts from hidden states (nn/spec/draft_input_spec.h), and Medusa's heads: "{}"
  // stands for the number of a head, "{e}" for that of a block (nn/drafting/medusa_heads.h).
  kDraftInput,
  kDraftEmbeddingNorm,
  kDraftHiddenNorm,
  kMedusaBlock,
  kMedusaHead,
  // Layers that read pooled states:
  kPoolerDense,      // BERT's, before the classifier
  kClassifierDense,  // before the classifier, with its own prefix
  kClassifierNorm,
  kClassifier,      // [labels, E]
  kSentenceDense,   // sentence-transformers'; "{}" stands for its place among the modules
  kDenseInputNorm,  // on the input of such a layer
  // Images that are cut into tiles, by the grid of the tiles (models/vision/mllama.h):
  kTilePositions,     // [grids, tiles * rows of a tile * E]
  kTilePositionGate,  // [1]: how much of kTilePositions replaces kPositionEmbedding
  kTileBefore,        // [grids, tiles * E]: added to patches
  kTileBeforeGate,    // [1]
  kTileBehind,        // [grids, tiles * E]: added behind the first layers
  kTileBehindGate,    // [1]
  kDenseInputShift,
  kDenseInputFactor,
  // Bounds of a matrix's inputs and outputs, [4] (LinearWeights::bounds):
  kQBounds,
  kKBounds,
  kVBounds,
  kOBounds,
  kGateBounds,
  kUpBounds,
  kDownBounds,
  // The indexer of sparse attention (nn/spec/index_spec.h):
  kIndexQuery,
  kIndexKey,
  kIndexKeyNorm,
  kIndexHeadWeights,
};

// SharedRows locates the rows of one role in a tensor that `parts` roles of equal size share: row r
// of part `part` is row part * rows + r of the tensor, or r * parts + part when interleaved.
struct SharedRows {
  int8_t part = 0;
  int8_t parts = 1;
  bool interleaved = false;
};

// RowRuns says how the parts of a weight that have the same name follow each other in their tensor.
enum class RowRuns : uint8_t {
  kNone,      // each part has a tensor of its own
  kStacked,   // one after the other
  kPerGroup,  // one after the other in each of the weight's groups (WeightSlot::row_groups)
};

// QkvOrder says how the rows of a kQkv tensor follow each other.
enum class QkvOrder : uint8_t {
  kStacked,        // all of q, then k, then v
  kPerKvHead,      // for each KV head its query heads, its key, its value (GPT-NeoX, Bloom, Falcon)
  kQueryValueKey,  // for each quarter of the heads its queries, its values, its keys (CodeGen)
};

struct NameMapEntry {
  TensorRole role;
  // The name without the prefix and without ".weight" or ".bias". "{}" stands for the layer,
  // "{head}" for the head of a vector that is stored head by head, and "{e}" for the expert. A
  // pattern that ends with ".{e}" names a tensor that holds all experts of a layer
  // (weights/unstack.h).
  std::string_view pattern;
  bool transposed = false;  // stored [K, N] (GPT-2's Conv1D)
  QkvOrder order = QkvOrder::kStacked;
  bool bare = false;  // the pattern is the whole name, without ".weight"
  SharedRows rows = {};
  RowRuns runs = RowRuns::kNone;
  bool is_log = false;     // for a vector: the file stores x, the weight is -e^x
  bool unit_rows = false;  // for a float matrix: each row is divided by its length
  float offset = 0.0f;     // added to a weight vector, instead of NameMap::norm_offset
  // If false, the bias is 0 and not stored, although the weight's other parts have one.
  bool has_bias = true;
  // The value of every element of a vector that no file holds. OLMo's norms have no weights.
  std::optional<float> constant = {};
};

// A NamePrefix is what precedes all names. Checkpoints of one family differ in it: one has a
// multimodal wrapper, another is a bare trunk.
struct NamePrefix {
  std::string_view trunk;  // before every name but those of the head: "model."
  std::string_view head;   // before kLmHead, kLogitBias and the parts of a classifier
};

struct NameMap {
  std::span<const NameMapEntry> entries = {};
  std::span<const NamePrefix> prefixes =
      {};  // tried in order; the first whose token embedding exists is used
  // Tensors whose names contain one of these strings may exist and are not read: buffers, vision
  // towers.
  std::span<const std::string_view> ignored = {};
  float norm_offset = 0.0f;       // added to norm weights (Gemma stores w and means 1 + w)
  const NameMap* base = nullptr;  // maps the roles that have no entry here
  // Layers beyond the model's last one, which predict tokens further ahead, may exist and are not
  // read.
  bool ignores_later_layers = false;
};

// Returns the first entry of a role, or nullptr if neither this map nor its base has one.
const NameMapEntry* find_role(const NameMap& map, TensorRole role);
// Returns all entries of a role, of which a checkpoint uses one.
std::vector<const NameMapEntry*> entries_of(const NameMap& map, TensorRole role);

// Returns the full name of a tensor. `layer` is negative for tensors outside the layers; `suffix`
// is "weight" or "bias".
std::string tensor_name(const NameMapEntry& entry, const NamePrefix& prefix, int32_t layer,
                        std::string_view suffix, int32_t expert = -1);

// Returns the layer that a full name belongs to by one of the map's patterns, or -1 if it belongs
// to none.
int32_t layer_of_name(const NameMap& map, const NamePrefix& prefix, std::string_view name);

// Returns whether NameMap::norm_offset applies to weights of this role.
bool is_norm(TensorRole role);

}  // namespace quire
