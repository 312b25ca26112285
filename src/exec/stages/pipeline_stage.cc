#include "exec/stages/pipeline_stage.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "base/check.h"

namespace quire {

namespace {

// The parameters of the largest stage, and then the sum of their squares; less is better.
struct Balance {
  double most = 0.0;
  double squares = 0.0;

  Balance with(double parameters) const {
    return {std::max(most, parameters), squares + parameters * parameters};
  }
  bool operator<(const Balance& other) const {
    return most < other.most || (most == other.most && squares < other.squares);
  }
};

// Returns for each layer whether a stage may begin there.
std::vector<bool> find_begins(const DecoderSpec& whole) {
  const auto num_layers = static_cast<int64_t>(whole.layers.size());
  std::vector<bool> may_begin(whole.layers.size(), true);
  for (int64_t i = 0; i < num_layers; ++i) {
    const AttentionSpec& attention = whole.layers[static_cast<size_t>(i)].attention;
    if (attention.index.any() && !attention.index.chooses())
      may_begin[static_cast<size_t>(i)] = false;
    if (!attention.any() || attention.has_own_kv()) continue;
    for (int64_t at = attention.kv_layer + 1; at <= i; ++at)
      may_begin[static_cast<size_t>(at)] = false;
  }
  return may_begin;
}

// Returns the first layer of each stage, followed by the end of the last one; empty if there are no
// such stages.
std::vector<int64_t> balance(const DecoderSpec& whole, int32_t num_stages,
                             const std::vector<bool>& may_begin) {
  const auto num_layers = static_cast<int64_t>(whole.layers.size());
  std::vector<double> before = {0.0};  // parameters of all layers before one
  for (size_t i = 0; i < whole.layers.size(); ++i)
    before.push_back(before.back() + static_cast<double>(whole.num_layer_parameters(i)));
  if (whole.has_head) before.back() += static_cast<double>(whole.num_logits() * whole.hidden_size);
  // By number of stages and of layers in them: the best balance, and the first layer of the last
  // stage.
  struct Best {
    std::optional<Balance> balance;
    int64_t begin = 0;
  };
  const auto width = static_cast<size_t>(num_layers + 1);
  std::vector<std::vector<Best>> best(static_cast<size_t>(num_stages) + 1,
                                      std::vector<Best>(width));
  best[0][0].balance = Balance{};
  for (size_t stage = 1; stage < best.size(); ++stage) {
    for (size_t end = stage; end < width; ++end) {
      for (size_t begin = stage - 1; begin < end; ++begin) {
        const std::optional<Balance>& head = best[stage - 1][begin].balance;
        if (!head || !may_begin[begin]) continue;
        const Balance all = head->with(before[end] - before[begin]);
        Best& kept = best[stage][end];
        if (!kept.balance || all < *kept.balance) kept = {all, static_cast<int64_t>(begin)};
      }
    }
  }
  if (!best.back().back().balance) return {};
  std::vector<int64_t> begins(best.size());
  begins.back() = num_layers;
  for (size_t stage = best.size() - 1; stage > 0; --stage)
    begins[stage - 1] = best[stage][static_cast<size_t>(begins[stage])].begin;
  return begins;
}

}  // namespace

RowRange layers_of(const DecoderSpec& whole, const PipelineStage& stage) {
  std::vector<int64_t> begins = balance(whole, stage.count, find_begins(whole));
  if (begins.empty())
    begins = balance(whole, stage.count, std::vector<bool>(whole.layers.size(), true));
  QUIRE_CHECK(!begins.empty(), "{} layers in {} stages", whole.layers.size(), stage.count);
  const auto index = static_cast<size_t>(stage.index);
  return {begins[index], begins[index + 1]};
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
        "--pipeline-parallel-size: expected 1 for a model that attends to the output of an "
        "encoder, got {}",
        num_stages);
  }
  for (int32_t index = 0; index < num_stages; ++index) {
    const RowRange layers = layers_of(whole, {index, num_stages});
    const IndexSpec& first = whole.layers[static_cast<size_t>(layers.begin)].attention.index;
    if (first.any() && !first.chooses()) {
      return unimplemented(
          "--pipeline-parallel-size: layer {} reads the tokens that the layer before it has "
          "chosen; "
          "expected stages that do not part them, got {}",
          layers.begin, num_stages);
    }
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
  const RowRange layers = layers_of(whole, stage);
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
