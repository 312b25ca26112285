// How a checkpoint names the tensors of a decoder: data, one table per family and file format.
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

// What a tensor is for. Fused roles hold their parts' rows one after the other.
enum class TensorRole : uint8_t {
  kTokenEmbedding,
  kPositionEmbedding,
  kTokenTypeEmbedding,  // of the text of a pair that a token belongs to (BERT)
  kRelativeBias,        // [buckets, heads]: of attention scores (nn/spec/relative_bias.h)
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
  kHeadsNorm,          // on what the output projection of attention reads
  kPostAttentionNorm,  // on the attention's output, before the residual add
  kPreMlpNorm,
  kPostMlpNorm,  // on the MLP's output, before the residual add
  kGateUp,
  kGate,
  kUp,         // the only input projection of an MLP without a gate
  kInnerNorm,  // on what the down projection reads
  kDown,
  kXieluP,  // [1] each: the parameters of an activation (kernels/api/activation.h)
  kXieluN,
  kSinks,             // one more score per attention head
  kRouter,            // [X, E]: a logit per expert
  kRouterCorrection,  // [X]: added to the scores for the choice alone
  kExpertGate,        // of one expert; "{e}" in the pattern stands for its number
  kExpertUp,
  kExpertDown,
  kSharedGate,  // of the MLP that every token of a layer of experts goes through
  kSharedUp,
  kSharedDown,
  kSharedRouter,  // [1, E]: how much of that MLP a token takes
  // Of experts that run beside an MLP through norms of their own (nn/decoder_spec.h):
  kRouterNorm,     // on what the router reads
  kExpertScale,    // [X]: of the routing weights
  kPreExpertNorm,  // on what the experts read
  kPostExpertNorm,
  kPostDenseNorm,  // on what the MLP beside them makes
  // Of inputs that every layer has of its own (nn/decoder_spec.h):
  kLayerTable,       // [V, layers * P]
  kLayerProjection,  // [layers * P, E]
  kLayerProjectionNorm,
  kLayerInputGate,  // [P, E]
  kLayerInputUp,    // [E, P]
  kLayerInputNorm,
  kLayerScale,  // [1]: what the residual stream behind a layer is multiplied by
  kQueryGate,   // [Hq * D, E]: the gate of the attention's output
  // These are of several residual streams (nn/spec/streams_spec.h); "{e}" stands for a stream, from
  // 0, of those behind the first:
  kStreamIn,          // [E, E]: from the embedding to the stream
  kStreamOut,         // [E, E]: from the stream to its part of the final state
  kStreamRouterNorm,  // on what the router reads
  kStreamRouter,      // [S, E]
  kStreamPredict,     // [S * S, S]: from the router to the coefficients before a layer
  kStreamCorrect,     // [S, S]: and behind it
  kStreamScale,       // [E]: of what gates the inputs of a layer
  kLaurelDown,        // [R, E]
  kLaurelUp,          // [E, R]
  kLaurelNorm,
  // These are of a transformer block that layers share (nn/spec/shared_block_spec.h); "{e}" stands
  // for its use:
  kPairNorm,         // [2 E]: on the residual stream and the embedding beside it
  kBlockOut,         // [E, E]
  kUpdateQueryDown,  // [r, 2 E]: what a use adds to the block's matrices
  kUpdateQueryUp,    // [Hq * D, r]
  kUpdateKeyDown,
  kUpdateKeyUp,
  kUpdateValueDown,
  kUpdateValueUp,
  kUpdateGateDown,  // [r, E]: to gate and up together
  kUpdateGateUp,    // [2 F, r]
  // These are of latent attention (nn/decoder_spec.h):
  kQueryDown,  // from the hidden state to the queries' latent
  kQueryDownNorm,
  kQueryUp,
  kLatentDown,  // to the latent of keys and values, and the rotated key behind it
  kLatentNorm,
  kLatentKeyUp,    // [R, N] and [V, R] of one head, whose number stands for "{e}"
  kLatentValueUp,  // (weights/latent_heads.h)
  // Of attention to what an encoder has made of a source (nn/spec/cross_spec.h):
  kCrossNorm,
  kCrossQ,
  kCrossK,
  kCrossV,
  kCrossO,
  kCrossQNorm,
  kCrossKNorm,
  kCrossGate,     // [1]
  kCrossMlpGate,  // [1]: of the MLP behind it
  // These are of a mixer with a state (nn/spec/state_spec.h):
  kStateIn,  // its input projection, all parts together
  kStateQ,
  kStateK,
  kStateV,
  kStateZ,         // the gate of the output
  kStateBeta,      // how much of a token enters the state
  kStateStep,      // how far a token moves the state
  kStateStepDown,  // that through a narrow layer
  kStateStepUp,
  kStateGateDown,  // kStateZ through a narrow layer
  kStateGateUp,
  kStateConv,  // taps and bias of the convolution
  kStateConvQ,
  kStateConvK,
  kStateConvV,
  kStateX,  // from the convolved channels to step, B and C
  kStateStepBias,
  kStateStepNorm,  // norms of step, B and C
  kStateBNorm,
  kStateCNorm,
  kStateA,
  kStateD,
  kStateNorm,  // on the output
  kStateOut,
  // Of a decoder that drafts from hidden states (nn/spec/draft_input_spec.h), and of Medusa's heads,
  // whose number stands for "{}", with blocks numbered by "{e}" (nn/drafting/medusa_heads.h).
  kDraftInput,
  kDraftEmbeddingNorm,
  kDraftHiddenNorm,
  kMedusaBlock,
  kMedusaHead,
  // These read pooled states:
  kPoolerDense,      // of BERT, before the classifier
  kClassifierDense,  // before the classifier, with its own prefix
  kClassifierNorm,
  kClassifier,      // [labels, E]
  kSentenceDense,   // of sentence-transformers; "{}" stands for the place among its modules
  kDenseInputNorm,  // on what such a layer reads
  // Of pictures that are cut into tiles, by the grid that they lie in (models/vision/mllama.h):
  kTilePositions,     // [grids, tiles * rows of a tile * E]
  kTilePositionGate,  // [1]: how much of them counts instead of kPositionEmbedding
  kTileBefore,        // [grids, tiles * E]: added to patches
  kTileBeforeGate,    // [1]
  kTileBehind,        // [grids, tiles * E]: added behind the first layers
  kTileBehindGate,    // [1]
  kDenseInputShift,
  kDenseInputFactor,
  // Bounds of what a matrix reads and makes, [4] (LinearWeights::bounds):
  kQBounds,
  kKBounds,
  kVBounds,
  kOBounds,
  kGateBounds,
  kUpBounds,
  kDownBounds,
  // These are of the indexer of sparse attention (nn/spec/index_spec.h):
  kIndexQuery,
  kIndexKey,
  kIndexKeyNorm,
  kIndexHeadWeights,
};

// The rows of one role among those of a tensor that `parts` roles of equal size share: row r of part
// `part` is row part * rows + r of the tensor, or r * parts + part when interleaved.
struct SharedRows {
  int8_t part = 0;
  int8_t parts = 1;
  bool interleaved = false;
};

// How the parts of a weight that are named alike follow each other in their tensor.
enum class RowRuns : uint8_t {
  kNone,      // each part has a tensor of its own
  kStacked,   // one after the other
  kPerGroup,  // one after the other in each of the weight's groups (WeightSlot::row_groups)
};

// How the rows of a kQkv tensor follow each other.
enum class QkvOrder : uint8_t {
  kStacked,        // all of q, then k, then v
  kPerKvHead,      // for each KV head its query heads, its key, its value (GPT-NeoX, Bloom, Falcon)
  kQueryValueKey,  // for each quarter of the heads its queries, its values, its keys (CodeGen)
};

struct NameMapEntry {
  TensorRole role;
  // The pattern leaves out the prefix and ".weight" / ".bias". "{}" stands for the layer; "{head}"
  // for the head of a vector that is stored head by head, "{e}" for the expert; a pattern that ends
  // with ".{e}" is of a tensor that holds all experts of a layer (weights/unstack.h).
  std::string_view pattern;
  bool transposed = false;  // stored [K, N] (GPT-2's Conv1D)
  QkvOrder order = QkvOrder::kStacked;
  bool bare = false;  // the pattern is the whole name, without ".weight"
  SharedRows rows = {};
  RowRuns runs = RowRuns::kNone;
  bool is_log = false;     // of a vector: x is stored for -e^x
  bool unit_rows = false;  // of a float matrix: a row stands for itself divided by its length
  float offset = 0.0f;     // added to a weight vector, whatever NameMap::norm_offset says
  bool has_bias = true;    // else it is 0 and not stored, where the weight's other parts have one
  // Of a vector that no file holds: each of its elements. OLMo's norms have no weights.
  std::optional<float> constant = {};
};

// Checkpoints of one family differ in what stands before the names (a multimodal wrapper, a bare
// trunk).
struct NamePrefix {
  std::string_view trunk;  // before every role but the head: "model."
  std::string_view head;   // before kLmHead, kLogitBias and what a classifier is made of
};

struct NameMap {
  std::span<const NameMapEntry> entries = {};
  std::span<const NamePrefix> prefixes =
      {};  // tried in order; the first whose token embedding exists is used
  // Tensors that hold one of these strings may be there and are not read: buffers, vision towers.
  std::span<const std::string_view> ignored = {};
  float norm_offset = 0.0f;       // added to norm weights (Gemma stores w and means 1 + w)
  const NameMap* base = nullptr;  // names the roles that have no entry here
  // Layers behind the last one that the model has, which predict tokens further ahead, may be there
  // and are not read.
  bool ignores_later_layers = false;
};

// Returns nullptr when neither this map nor its base has such a role.
const NameMapEntry* find_role(const NameMap& map, TensorRole role);
// Returns all its names where checkpoints differ; one of them is used.
std::vector<const NameMapEntry*> entries_of(const NameMap& map, TensorRole role);

// Returns the full name. `layer` is below 0 for tensors outside the layers, and `suffix` is
// "weight" or "bias".
std::string tensor_name(const NameMapEntry& entry, const NamePrefix& prefix, int32_t layer,
                        std::string_view suffix, int32_t expert = -1);

// Returns the layer that a full name belongs to by one of the map's patterns, or -1 where it
// belongs to none.
int32_t layer_of_name(const NameMap& map, const NamePrefix& prefix, std::string_view name);

// Norm weights are the ones that norm_offset applies to.
bool is_norm(TensorRole role);

}  // namespace quire
