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
  kEmbeddingNorm,  // on the embedding, before the first layer
  kFinalNorm,
  kLmHead,
  kInputNorm,
  kQkv,
  kQ,
  kK,
  kV,
  kO,
  kQNorm,
  kKNorm,
  kPostAttentionNorm,  // on the attention's output, before the residual add
  kPreMlpNorm,
  kPostMlpNorm,  // on the MLP's output, before the residual add
  kGateUp,
  kGate,
  kUp,  // the only input projection of an MLP without a gate
  kDown,
  kXieluP,  // [1] each: the parameters of an activation (kernels/api/activation.h)
  kXieluN,
};

// How the rows of a kQkv tensor follow each other.
enum class QkvOrder : uint8_t {
  kStacked,    // all of q, then k, then v
  kPerKvHead,  // for each KV head its query heads, its key, its value (GPT-NeoX, Bloom, Falcon)
};

struct NameMapEntry {
  TensorRole role;
  // Without the prefix and ".weight" / ".bias". "{}" stands for the layer; "{head}" for the head of
  // a vector that is stored head by head.
  std::string_view pattern;
  bool transposed = false;  // stored [K, N] (GPT-2's Conv1D)
  QkvOrder order = QkvOrder::kStacked;
  bool bare = false;  // the pattern is the whole name, without ".weight"
};

// Checkpoints of one family differ in what stands before the names (a multimodal wrapper, a bare
// trunk).
struct NamePrefix {
  std::string_view trunk;  // before every role but the head: "model."
  std::string_view head;   // before kLmHead
};

struct NameMap {
  std::span<const NameMapEntry> entries = {};
  std::span<const NamePrefix> prefixes =
      {};  // tried in order; the first whose token embedding exists is used
  // Tensors that hold one of these strings may be there and are not read: buffers, vision towers.
  std::span<const std::string_view> ignored = {};
  float norm_offset = 0.0f;       // added to norm weights (Gemma stores w and means 1 + w)
  const NameMap* base = nullptr;  // names the roles that have no entry here
};

// nullptr when neither this map nor its base has such a role.
const NameMapEntry* find_role(const NameMap& map, TensorRole role);
// All its names, where checkpoints differ: one of them is used.
std::vector<const NameMapEntry*> entries_of(const NameMap& map, TensorRole role);

// The full name; `layer` < 0 for tensors outside the layers. `suffix`: "weight" or "bias".
std::string tensor_name(const NameMapEntry& entry, const NamePrefix& prefix, int32_t layer,
                        std::string_view suffix);

// Norm weights are the ones that norm_offset applies to.
bool is_norm(TensorRole role);

}  // namespace quire
