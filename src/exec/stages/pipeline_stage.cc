#include "exec/stages/pipeline_stage.h"

#include <algorithm>
#include <iterator>

namespace quire {

RowRange PipelineStage::layers(int64_t num_layers) const {
  const int64_t each = num_layers / count, rest = num_layers % count;
  // Stages from `first` on, but for the last one, have one more.
  const int64_t first = count - 1 - rest;
  const auto begin_of = [&](int64_t stage) {
    if (stage == count) return num_layers;
    return stage * each + std::max<int64_t>(0, stage - first);
  };
  return {begin_of(index), begin_of(index + 1)};
}

Status check_stages(const DecoderSpec& whole, int32_t num_stages) {
  const auto num_layers = std::ssize(whole.layers);
  if (num_stages < 1 || num_stages > num_layers) {
    return invalid_argument(
        "--pipeline-parallel-size: expected 1 to {}, the model's layers, got {}", num_layers,
        num_stages);
  }
  if (num_stages == 1) return {};
  if (whole.layer_inputs.any()) {
    return unimplemented(
        "--pipeline-parallel-size: expected 1 for a model whose layers have embeddings of their "
        "own, got {}",
        num_stages);
  }
  if (whole.has_shared_blocks()) {
    return unimplemented(
        "--pipeline-parallel-size: expected 1 for a model whose layers share a block, got {}",
        num_stages);
  }
  if (whole.cross.any()) {
    return unimplemented(
        "--pipeline-parallel-size: expected 1 for a model that looks at what an encoder has made, "
        "got {}",
        num_stages);
  }
  for (int32_t index = 0; index < num_stages; ++index) {
    const RowRange layers = PipelineStage{index, num_stages}.layers(num_layers);
    for (int64_t i = layers.begin; i < layers.end; ++i) {
      const AttentionSpec& attention = whole.layers[static_cast<size_t>(i)].attention;
      if (!attention.any() || attention.has_own_kv() || attention.kv_layer >= layers.begin)
        continue;
      return unimplemented(
          "--pipeline-parallel-size: layer {} reads the keys and values of layer {}; expected "
          "stages that do not part them, got {}",
          i, attention.kv_layer, num_stages);
    }
  }
  return {};
}

DecoderSpec stage_of(const DecoderSpec& whole, const PipelineStage& stage) {
  DecoderSpec own = whole;
  const RowRange layers = stage.layers(std::ssize(whole.layers));
  for (size_t i = 0; i < own.layers.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (at >= layers.begin && at < layers.end) continue;
    own.layers[i] = {};
    own.layers[i].attention.causal = whole.layers[i].attention.causal;
  }
  if (!stage.is_first()) {
    own.num_positions = 0;
    own.num_token_types = 0;
    own.block.embedding_norm = false;
  }
  if (!stage.is_last()) {
    own.has_head = own.tied_head = own.head_bias = false;
    own.block.final_norm = false;
    own.pooling = {};
  }
  return own;
}

}  // namespace quire
