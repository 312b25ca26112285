#include "nn/decoder/experts_block.h"

#include <algorithm>
#include <utility>

#include "kernels/api/activation.h"
#include "kernels/api/norm.h"
#include "kernels/api/router.h"
#include "nn/products/linear_product.h"
#include "nn/products/product_inputs.h"

namespace quire {
namespace {

// Elements of each buffer, in the order in which the constructor takes them.
struct RouterBuffers {
  int64_t logits = 0, pairs = 0, workspace_bytes = 0, input_logits = 0, rows = 0;
  DType activation_type;

  RouterBuffers(const DecoderSpec& spec, const DecoderWeights& weights, const BlockLimits& limits,
                const Stream& stream)
      : activation_type(limits.activation_type) {
    const int64_t max_tokens = limits.max_tokens;
    for (size_t i = 0; i < spec.layers.size(); ++i) {
      const RouterSpec& router = spec.layers[i].ffn.experts.router;
      if (router.num_experts == 0) continue;
      logits = std::max(logits, max_tokens * router.num_experts);
      pairs = std::max(pairs, max_tokens * router.experts_per_token);
      workspace_bytes =
          std::max(workspace_bytes,
                   experts_workspace_bytes(stream, max_tokens, weights.layer(i).experts.views(),
                                           router.experts_per_token));
      const ExpertsSpec& experts = spec.layers[i].ffn.experts;
      if (experts.weighs_inputs) input_logits = max_tokens;
      if (experts.own_norms || experts.weighs_inputs) rows = max_tokens * spec.hidden_size;
    }
  }

  int64_t bytes() const {
    return Arena::padded(logits * 4) + 2 * Arena::padded(pairs * 4) +
           Arena::padded(workspace_bytes) + Arena::padded(input_logits * 4) +
           2 * Arena::padded(rows * size_bytes(activation_type));
  }
};

}  // namespace

std::vector<ExpertWeights> ExpertsWeights::views() const {
  std::vector<ExpertWeights> views;
  views.reserve(slots.size());
  const auto packed = [](const LinearWeights& weights) {
    return weights.is_empty() ? nullptr : &weights.weight.parts.front();
  };
  for (const Expert& expert : slots) {
    views.push_back({.gate = packed(expert.gate),
                     .up = packed(expert.up),
                     .down = packed(expert.down),
                     .gate_bias = expert.gate.bias,
                     .up_bias = expert.up.bias,
                     .down_bias = expert.down.bias});
  }
  return views;
}

int64_t ExpertsBlock::memory_bytes(const DecoderSpec& spec, const DecoderWeights& weights,
                                   const BlockLimits& limits, const Stream& stream) {
  return RouterBuffers(spec, weights, limits, stream).bytes();
}

ExpertsBlock::ExpertsBlock(const DecoderSpec& spec, const DecoderWeights& weights,
                           const BlockLimits& limits, BatchLinears& linears, Arena& arena)
    : spec_(spec),
      weights_(weights),
      linears_(linears),
      stream_(linears.stream()),
      ranks_(linears.ranks()) {
  const RouterBuffers sizes(spec, weights, limits, stream_);
  views_.resize(spec.layers.size());
  dealers_.resize(spec.layers.size());
  for (size_t i = 0; i < spec.layers.size(); ++i) take_weights(i);
  logits_ = arena.allocate<float>(sizes.logits);
  expert_ids_ = arena.allocate<int32_t>(sizes.pairs);
  expert_weights_ = arena.allocate<float>(sizes.pairs);
  workspace_ = arena.allocate_bytes(sizes.workspace_bytes);
  input_logits_ = arena.allocate<float>(sizes.input_logits);
  in_ = allocate_activations(arena, limits.activation_type, sizes.rows);
  out_ = allocate_activations(arena, limits.activation_type, sizes.rows);
}

void ExpertsBlock::take_weights(size_t layer) {
  const ExpertsWeights& weights = weights_.layer(layer).experts;
  views_[layer] = weights.views();
  dealers_[layer].reset();
  if (ranks_ != nullptr && ranks_->share().spreads_experts() && !weights.slots.empty()) {
    dealers_[layer].emplace(weights.expert_of, spec_.layers[layer].ffn.experts.router.num_experts);
  }
}

void ExpertsBlock::count_tokens() {
  counts_.resize(spec_.layers.size());
  for (size_t i = 0; i < counts_.size(); ++i) {
    const int32_t num_experts = spec_.layers[i].ffn.experts.router.num_experts;
    counts_[i].assign(static_cast<size_t>(num_experts), 0);
  }
}

std::vector<std::vector<int64_t>> ExpertsBlock::take_counts() { return std::exchange(counts_, {}); }

void ExpertsBlock::run(size_t layer, ConstActivations x, Activations out, bool accumulate,
                       int64_t num_tokens) {
  route(layer, x, num_tokens);
  if (spec_.layers[layer].ffn.experts.weighs_inputs) {
    sigmoid_scale(stream_, {.x = x,
                            .out = in_,
                            .logits = input_logits_,
                            .num_rows = num_tokens,
                            .row_size = spec_.hidden_size});
    x = in_;
  }
  multiply(layer, x, out, accumulate, num_tokens);
}

void ExpertsBlock::add_beside(size_t layer, const float* hidden, Activations dense,
                              int64_t num_tokens) {
  const ExpertsWeights& weights = weights_.layer(layer).experts;
  const auto norm = [&](const float* weight, ConstActivations x, Activations out,
                        Activations add_to) {
    rms_norm(stream_, {.x = x,
                       .weight = weight,
                       .out = out,
                       .add_to = add_to,
                       .eps = spec_.norm_eps,
                       .num_tokens = num_tokens,
                       .hidden_size = spec_.hidden_size});
  };
  norm(weights.router_norm, hidden, in_, nullptr);
  route(layer, in_, num_tokens);
  norm(weights.pre_norm, hidden, in_, nullptr);
  multiply(layer, in_, out_, false, num_tokens);
  norm(weights.dense_norm, dense, dense, nullptr);
  norm(weights.post_norm, out_, nullptr, dense);
}

void ExpertsBlock::route(size_t layer, ConstActivations x, int64_t num_tokens) {
  const ExpertsSpec& experts = spec_.layers[layer].ffn.experts;
  const ExpertsWeights& weights = weights_.layer(layer).experts;
  linears_.run(weights.router, x, {logits_}, num_tokens);
  route_tokens(stream_, {.logits = logits_,
                         .bias = weights.correction,
                         .router = experts.router,
                         .expert_ids = expert_ids_,
                         .expert_weights = expert_weights_,
                         .expert_scale = weights.scale,
                         .chosen_logits = experts.weighs_inputs ? input_logits_ : nullptr,
                         .num_tokens = num_tokens});
  const std::span<int32_t> ids(expert_ids_,
                               static_cast<size_t>(num_tokens * experts.router.experts_per_token));
  if (!counts_.empty()) {
    for (const int32_t id : ids) ++counts_[layer][static_cast<size_t>(id)];
  }
  if (dealers_[layer]) dealers_[layer]->deal(ids);
}

void ExpertsBlock::multiply(size_t layer, ConstActivations x, Activations out, bool accumulate,
                            int64_t num_tokens) {
  const ExpertsSpec& experts = spec_.layers[layer].ffn.experts;
  RunExpertsParams params{.x = x,
                          .experts = views_[layer],
                          .expert_ids = expert_ids_,
                          .expert_weights = expert_weights_,
                          .experts_per_token = experts.router.experts_per_token,
                          .activation = experts.activation,
                          .out = out,
                          .accumulate = accumulate,
                          .num_tokens = num_tokens,
                          .workspace = workspace_};
  if (LoraBatch* const lora = linears_.lora(); lora != nullptr)
    params.updates = lora->experts(layer, num_tokens);
  if (ranks_ == nullptr) return run_experts(stream_, params);
  if (ranks_->share().spreads_experts()) {
    const ExpertsSpread spread = ranks_->spread_experts(layer, num_tokens, expert_ids_);
    params.spread = &spread;
    run_experts(stream_, params);
    if (ranks_->combines_columns(layer)) ranks_->gather_outputs(out, num_tokens);
    return;
  }
  const ExpertsExchange exchange = ranks_->experts(layer, num_tokens);
  params.out = out.from(ranks_->share().outputs(spec_.hidden_size).begin);
  params.exchange = &exchange;
  run_experts(stream_, params);
  ranks_->gather_outputs(out, num_tokens);
}

void ExpertsBlock::scale_shared(size_t layer, ConstActivations x, Activations h,
                                int64_t num_tokens) {
  const LinearWeights& router = weights_.layer(layer).experts.shared_router;
  if (router.is_empty()) return;
  linears_.run(router, x, {logits_}, num_tokens);
  sigmoid_scale(stream_, {.x = h,
                          .out = h,
                          .logits = logits_,
                          .num_rows = num_tokens,
                          .row_size = spec_.layers[layer].ffn.intermediate_size});
}

}  // namespace quire
