// The names of tensors in mmproj files, and how their weights differ from those of transformers.
#include <algorithm>
#include <cstring>
#include <utility>

#include "models/vision/mmproj.h"
#include "models/vision/mmproj_fields.h"
#include "models/vision/tower_reader.h"

namespace quire {
namespace {

constexpr NameMapEntry kMmprojLayoutEntries[] = {
    {.role = TensorRole::kTokenEmbedding, .pattern = "v.class_embd", .bare = true},
    {TensorRole::kPositionEmbedding, "v.position_embd"},
    {TensorRole::kEmbeddingNorm, "v.pre_ln"},
    {TensorRole::kInputNorm, "v.blk.{}.ln1"},
    {TensorRole::kQkv, "v.blk.{}.attn_qkv"},
    {TensorRole::kQ, "v.blk.{}.attn_q"},
    {TensorRole::kK, "v.blk.{}.attn_k"},
    {TensorRole::kV, "v.blk.{}.attn_v"},
    {TensorRole::kQNorm, "v.blk.{}.attn_q_norm"},
    {TensorRole::kKNorm, "v.blk.{}.attn_k_norm"},
    {TensorRole::kO, "v.blk.{}.attn_out"},
    {TensorRole::kPostAttentionNorm, "v.blk.{}.ls1"},
    {TensorRole::kPreMlpNorm, "v.blk.{}.ln2"},
    {TensorRole::kGate, "v.blk.{}.ffn_gate"},
    {TensorRole::kUp, "v.blk.{}.ffn_up"},
    {TensorRole::kDown, "v.blk.{}.ffn_down"},
    {TensorRole::kPostMlpNorm, "v.blk.{}.ls2"},
    {TensorRole::kFinalNorm, "v.post_ln"},
    {TensorRole::kDenseInputNorm, "dense_norm.{}"},
    {TensorRole::kSentenceDense, "dense.{}"},
    {.role = TensorRole::kSentenceDense, .pattern = "dense.{}", .bare = true},
};
constexpr NameMapEntry kSwappedEntries[] = {
    {TensorRole::kUp, "v.blk.{}.ffn_down"},
    {TensorRole::kDown, "v.blk.{}.ffn_up"},
};
// The projector is stored [K, N].
constexpr NameMapEntry kGemmaEntries[] = {
    {TensorRole::kSentenceDense, "dense.{}"},
    {.role = TensorRole::kSentenceDense, .pattern = "dense.{}", .transposed = true, .bare = true},
};
// The bounds of a matrix are tensors beside it.
constexpr NameMapEntry bare(TensorRole role, std::string_view pattern) {
  return {.role = role, .pattern = pattern, .bare = true};
}
constexpr NameMapEntry kGemma4Entries[] = {
    {TensorRole::kPostAttentionNorm, "v.blk.{}.attn_post_norm"},
    {TensorRole::kPostMlpNorm, "v.blk.{}.ffn_post_norm"},
    bare(TensorRole::kQBounds, "v.blk.{}.attn_q.bounds"),
    bare(TensorRole::kKBounds, "v.blk.{}.attn_k.bounds"),
    bare(TensorRole::kVBounds, "v.blk.{}.attn_v.bounds"),
    bare(TensorRole::kOBounds, "v.blk.{}.attn_out.bounds"),
    bare(TensorRole::kGateBounds, "v.blk.{}.ffn_gate.bounds"),
    bare(TensorRole::kUpBounds, "v.blk.{}.ffn_up.bounds"),
    bare(TensorRole::kDownBounds, "v.blk.{}.ffn_down.bounds"),
    bare(TensorRole::kDenseInputShift, "v.std_bias"),
    bare(TensorRole::kDenseInputFactor, "v.std_scale"),
    {TensorRole::kSentenceDense, "dense.{}"},
};
constexpr NameMapEntry kMergerEntries[] = {{TensorRole::kFinalNorm, "mm.input_norm"}};
// The parts after the layer whose output is read, rows of the language model's own table, and the
// projector of an audio tower.
constexpr std::string_view kIgnored[] = {"v.post_ln", "v.token_embd.img_break", "mm.a."};

constexpr NameMap kNames{.entries = kMmprojLayoutEntries, .prefixes = kTowerPrefix};
constexpr NameMap kSwappedNames{
    .entries = kSwappedEntries, .prefixes = kTowerPrefix, .base = &kNames};

// Adds names such as "v.deepstack.8", for each tap in turn.
void add_tap_names(VisionSpec& vision) {
  for (const int32_t layer : vision.tap_layers) {
    for (const char* part : {"fc1", "fc2"})
      vision.dense_names.push_back(fmt::format("v.deepstack.{}.{}", layer, part));
    vision.dense_norm_names.push_back(fmt::format("v.deepstack.{}.norm", layer));
    vision.dense_norm_names.emplace_back();
  }
}

void name_projector(const MmprojFields& file, std::string_view type, VisionSpec& vision) {
  vision.dense_names = {"v.patch_embd"};
  vision.dense_norm_names = {""};
  const auto add = [&](std::initializer_list<const char*> names) {
    vision.dense_names.insert(vision.dense_names.end(), names.begin(), names.end());
  };
  if (type == "gemma3") {
    add({"mm.input_projection.weight"});
    vision.dense_norm_names.emplace_back("mm.soft_emb_norm");
  } else if (type == "gemma4v") {
    add({"mm.input_projection"});
  } else if (type == "idefics3") {
    add({"mm.model.fc"});
  } else if (type == "internvl") {
    add({"mm.model.mlp.1", "mm.model.mlp.3"});
    vision.dense_norm_names.emplace_back("mm.model.mlp.0");
  } else if (type == "pixtral") {
    if (vision.encoder.block.final_norm) add({"mm.patch_merger"});
    add({"mm.1", "mm.2"});
  } else {
    add({"mm.0", "mm.2"});
    vision.dense_norm_names.resize(vision.dense_names.size());
    add_tap_names(vision);
  }
  // Older converters write "model." before the name, together with other prefixes.
  if (!vision.grids.empty())
    add({file.has_tensor("v.image_newline") ? "v.image_newline" : "image_newline"});
  vision.dense_norm_names.resize(vision.dense_names.size());
}

// Joins weights [O, 3, P, P] of two frames to [O, 3, 2, P, P].
Result<RawTensor> join_frames(const RawTensor& first, const RawTensor& second,
                              std::vector<std::unique_ptr<std::byte[]>>& memory) {
  const bool fits = first.shape.size() == 4 && first.shape == second.shape && first.dtype &&
                    first.dtype == second.dtype && first.data.size() == second.data.size();
  if (!fits) {
    return invalid_argument("tensor '{}': expected the shape and type of '{}', of rank 4",
                            second.name, first.name);
  }
  const size_t size = first.data.size();
  const auto rows = static_cast<size_t>(first.shape[0] * first.shape[1]);
  if (rows == 0 || size % rows != 0)
    return invalid_argument("tensor '{}': expected rows, got none", first.name);
  const size_t frame = size / rows;
  auto joined = std::make_unique<std::byte[]>(2 * size);
  for (size_t row = 0; row < rows; ++row) {
    std::memcpy(&joined[2 * row * frame], &first.data[row * frame], frame);
    std::memcpy(&joined[(2 * row + 1) * frame], &second.data[row * frame], frame);
  }
  RawTensor tensor = first;
  tensor.shape.insert(tensor.shape.begin() + 2, 2);
  tensor.data = {joined.get(), 2 * size};
  memory.push_back(std::move(joined));
  return tensor;
}

}  // namespace

void use_mmproj_layout(const GgufFile& mmproj, VisionSpec& vision) {
  const MmprojFields file(mmproj);
  const std::string_view type = mmproj_type(mmproj);
  name_projector(file, type, vision);
  vision.tensor_prefixes = {"v.", "mm.", "image_newline"};
  const bool ignores_later_layers = vision.names.ignores_later_layers;
  const NameMap& shared = file.has_swapped_mlps() ? kSwappedNames : kNames;
  vision.names = shared;
  if (type == "gemma3")
    vision.names = {.entries = kGemmaEntries, .prefixes = kTowerPrefix, .base = &shared};
  if (type == "gemma4v") {
    vision.names = {.entries = kGemma4Entries, .prefixes = kTowerPrefix, .base = &shared};
    vision.channels_last = false;  // the matrix for patches is stored as a convolution
  }
  if (type == "pixtral") {
    vision.names = {.entries = kMergerEntries, .prefixes = kTowerPrefix, .base = &shared};
    // Rows of queries and keys are stored in the order in which rotated pairs are adjacent.
    for (LayerSpec& layer : vision.encoder.layers)
      layer.attention.rope_style = RopeStyle::kInterleaved;
  }
  vision.names.ignored = kIgnored;
  vision.names.ignores_later_layers = ignores_later_layers;
}

Result<TowerTensors> mmproj_tensors(const GgufFile& mmproj) {
  constexpr std::string_view kFirst = "v.patch_embd.weight", kSecond = "v.patch_embd.weight.1";
  const MmprojFields file(mmproj);
  const RawTensor* const second = file.tensor(kSecond);
  if (second == nullptr) return TowerTensors{TensorSource(mmproj.tensors()), {}};
  TowerTensors out;
  std::vector<RawTensor> tensors;
  for (const RawTensor& tensor : mmproj.tensors()) {
    if (tensor.name == kSecond) continue;
    if (tensor.name == kFirst) {
      QUIRE_ASSIGN_OR_RETURN(RawTensor joined, join_frames(tensor, *second, out.memory));
      tensors.push_back(std::move(joined));
    } else {
      tensors.push_back(tensor);
    }
  }
  out.source = TensorSource(std::move(tensors));
  return out;
}

}  // namespace quire
