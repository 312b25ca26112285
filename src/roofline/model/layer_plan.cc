#include "roofline/model/layer_plan.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

double per_rank(double whole, int32_t ranks) { return std::max(1.0, std::ceil(whole / ranks)); }

void plan_dense_attention(const AttentionShape& shape, const ModelShape& model, int32_t tp,
                          GroupPlan& plan) {
  const double heads = per_rank(shape.num_heads, tp);
  const double kv_heads = per_rank(shape.num_kv_heads, tp);
  const auto hidden = static_cast<double>(model.hidden_size);
  const double dim = shape.head_dim;
  const double own_heads = shape.shares_kv ? 0 : 2 * kv_heads;
  plan.linears.push_back({Kernel::kQkvProjection, (heads + own_heads) * dim,
                          shape.num_inputs * hidden, model.weights});
  plan.linears.push_back({Kernel::kOutputProjection, hidden, heads * dim, model.weights});
  plan.prefill = {.num_heads = heads,
                  .num_kv_heads = kv_heads,
                  .qk_dim = dim,
                  .v_dim = dim,
                  .kv_bytes_per_token = 2 * kv_heads * dim * model.kv.bytes(),
                  .activation_bytes = model.activations.bytes(),
                  .window = shape.sliding_window,
                  .kv = model.kv};
  plan.decode = plan.prefill;
}

void plan_state(const StateShape& shape, const ModelShape& model, int32_t tp, GroupPlan& plan) {
  const auto hidden = static_cast<double>(model.hidden_size);
  const double inner = per_rank(static_cast<double>(shape.inner_size), tp);
  plan.linears.push_back({Kernel::kQkvProjection, per_rank(static_cast<double>(shape.in_rows), tp),
                          hidden, model.weights});
  if (shape.middle_elements > 0) {
    const double rows =
        static_cast<double>(shape.middle_elements) / static_cast<double>(shape.inner_size);
    plan.linears.push_back({Kernel::kQkvProjection, rows, inner, model.weights});
  }
  plan.linears.push_back({Kernel::kOutputProjection, hidden, inner, model.weights});
  plan.state = {.token_flops = static_cast<double>(shape.token_flops) / tp,
                .state_bytes = static_cast<double>(shape.num_floats) * sizeof(float) / tp};
}

// Prompt tokens attend to K and V that are expanded from the latent, per head. Decodes attend to
// the latent itself, with one KV head: the up-projections are folded into query and output.
void plan_latent_attention(const AttentionShape& shape, const ModelShape& model, int32_t tp,
                           GroupPlan& plan) {
  const LatentAttention& mla = shape.mla;
  const double heads = per_rank(shape.num_heads, tp);
  const auto hidden = static_cast<double>(model.hidden_size);
  const double qk_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
  const double latent = mla.kv_lora_rank + mla.qk_rope_head_dim;
  const auto add = [&](Kernel kernel, double n, double k) {
    plan.linears.push_back({kernel, n, k, model.weights});
  };
  add(Kernel::kQkvProjection, mla.q_lora_rank + latent, hidden);
  if (mla.q_lora_rank > 0) {
    add(Kernel::kQkvProjection, heads * qk_dim, mla.q_lora_rank);
  } else {
    add(Kernel::kQkvProjection, heads * qk_dim, hidden);
  }
  add(Kernel::kQkvProjection, heads * (mla.qk_nope_head_dim + mla.v_head_dim), mla.kv_lora_rank);
  add(Kernel::kOutputProjection, hidden, heads * mla.v_head_dim);
  const IndexShape& index = shape.index;
  if (index.num_heads > 0) {  // the same on every rank
    const double index_dim = index.head_dim;
    add(Kernel::kQkvProjection, index.num_heads * index_dim, mla.q_lora_rank);
    add(Kernel::kQkvProjection, index_dim + index.num_heads, hidden);
    plan.index = {.num_heads = static_cast<double>(index.num_heads),
                  .num_kv_heads = 1,
                  .qk_dim = index_dim,
                  .kv_bytes_per_token = index_dim * model.kv.bytes(),
                  .activation_bytes = model.activations.bytes(),
                  .kv = model.kv};
  }
  // Chosen tokens are read one by one; expanding them for each query would cost more than it saves.
  const bool absorbed = index.top_k > 0;
  plan.prefill = {.num_heads = heads,
                  .num_kv_heads = heads,
                  .qk_dim = qk_dim,
                  .v_dim = static_cast<double>(mla.v_head_dim),
                  .kv_bytes_per_token = latent * model.kv.bytes(),
                  .activation_bytes = model.activations.bytes(),
                  .window = shape.tokens_read(),
                  .kv = model.kv};
  plan.latent_width = heads * (qk_dim + mla.v_head_dim);
  plan.decode = plan.prefill;
  plan.decode.num_kv_heads = 1;
  plan.decode.qk_dim = latent;
  plan.decode.v_dim = mla.kv_lora_rank;
  if (absorbed) plan.prefill = plan.decode;
}

void plan_ffn(const FfnShape& ffn, const ModelShape& model, const Parallelism& parallelism,
              GroupPlan& plan) {
  const auto hidden = static_cast<double>(model.hidden_size);
  const auto add_dense = [&](double width, Kernel kernel) {
    if (width <= 0) return;
    const double rows = std::ceil(width / parallelism.tp);
    plan.linears.push_back({kernel, (ffn.num_matrices - 1) * rows, hidden, model.weights});
    plan.linears.push_back({kernel, hidden, rows, model.weights});
  };
  add_dense(ffn.intermediate_size, Kernel::kMlp);
  if (!ffn.moe()) return;
  add_dense(ffn.shared_intermediate_size, Kernel::kMlp);
  plan.linears.push_back(
      {Kernel::kRouter, static_cast<double>(ffn.num_experts), hidden, model.head_weights});
  const int32_t width_ranks = parallelism.ep > 1 ? 1 : parallelism.tp;
  const double rows = std::ceil(static_cast<double>(ffn.expert_intermediate_size) / width_ranks);
  plan.num_experts = ffn.num_experts;
  plan.experts_per_token = ffn.experts_per_token;
  plan.gate_up_rows = (ffn.num_matrices - 1) * rows;
  plan.down_depth = rows;
}

// Adds two norms with residuals, rope on Q and K, activation and gating, and the write into the
// cache.
void plan_elementwise(const LayerGroup& group, const ModelShape& model, int32_t tp,
                      GroupPlan& plan) {
  const auto hidden = static_cast<double>(model.hidden_size);
  const FfnShape& ffn = group.ffn;
  const double width =
      std::ceil((ffn.intermediate_size + ffn.shared_intermediate_size +
                 static_cast<double>(ffn.experts_per_token) * ffn.expert_intermediate_size) /
                tp);
  // The convolution, the recurrence and the gated norm read and write rows of these widths.
  const StateShape& state = group.state;
  const double state_width = std::ceil(static_cast<double>(state.in_rows + state.inner_size) / tp);
  const double bytes = model.activations.bytes();
  const double kv_written = group.attention.shares_kv ? 0
                            : group.attention.latent
                                ? group.attention.kv_elements_per_token() * model.kv.bytes()
                                : plan.prefill.kv_bytes_per_token;
  plan.elementwise_bytes_per_token =
      (12 * hidden + 3 * width + 2 * state_width) * bytes + kv_written;
  plan.elementwise_written_per_token = (5 * hidden + width + state_width) * bytes + kv_written;
}

int window_index(const std::vector<int32_t>& windows, int32_t window) {
  const auto it = std::find(windows.begin(), windows.end(), window);
  return it == windows.end() ? -1 : static_cast<int>(it - windows.begin());
}

// The products for queries and outputs run over all tokens, like the layer's other products.
void plan_cross_products(const ModelShape& model, int32_t tp, GroupPlan& plan) {
  const SourceShape& source = model.source;
  const auto hidden = static_cast<double>(model.hidden_size);
  const double rows = per_rank(source.num_heads, tp) * source.head_dim;
  plan.linears.push_back({Kernel::kQkvProjection, rows, hidden, model.weights});
  plan.linears.push_back({Kernel::kOutputProjection, hidden, rows, model.weights});
}

void plan_source(const ModelShape& model, const Parallelism& parallelism, DevicePlan& plan) {
  const SourceShape& source = model.source;
  const double heads = per_rank(source.num_heads, parallelism.tp);
  const double dim = source.head_dim;
  const double kv_rows = source.kv_rows() / parallelism.tp;
  plan.cross = {.num_heads = heads,
                .num_kv_heads = kv_rows / dim,
                .qk_dim = dim,
                .v_dim = dim,
                .kv_bytes_per_token = 2 * kv_rows * model.kv.bytes(),
                .activation_bytes = model.activations.bytes(),
                .kv = model.kv};
  const auto size = static_cast<double>(source.row_size);
  plan.source_kv = {Kernel::kEncoder, 2 * kv_rows, size, model.weights};
  if (source.front_elements > 0) {
    // One product with as many weights, which has as many operations.
    const double elements = static_cast<double>(source.front_elements);
    const auto width = static_cast<double>(source.encoder_width());
    plan.encoder_front.push_back({Kernel::kEncoder, width, elements / width, model.weights});
  }
  ModelShape encoder = model;
  encoder.hidden_size = source.encoder_width();
  encoder.groups = source.encoder;
  encoder.source = {};
  encoder.tower = {};
  plan.encoder = plan_device(encoder, parallelism).groups;
}

// Returns one product with as many weights, which has as many operations.
LinearOp product_of(int64_t elements, int64_t width, const NumberFormat& weights) {
  return {Kernel::kEncoder, static_cast<double>(width),
          static_cast<double>(elements) / static_cast<double>(width), weights};
}

// Towers are not quantized, and every device has all of one.
void plan_tower(const ModelShape& model, DevicePlan& plan) {
  const TowerShape& tower = model.tower;
  ModelShape encoder = model;
  encoder.hidden_size = tower.width;
  encoder.groups = tower.encoder;
  encoder.weights = model.activations;
  encoder.source = {};
  encoder.tower = {};
  plan.tower = plan_device(encoder, {}).groups;
  for (const LayerGroup& group : tower.encoder)
    plan.tower_windows.push_back(group.attention.sliding_window);
  if (tower.patch_elements > 0)
    plan.tower_front.push_back(product_of(tower.patch_elements, tower.width, encoder.weights));
  if (tower.projector_elements > 0)
    plan.projector.push_back(
        product_of(tower.projector_elements, model.hidden_size, encoder.weights));
}

}  // namespace

DevicePlan plan_device(const ModelShape& model, const Parallelism& parallelism) {
  DevicePlan plan;
  plan.hidden_size = static_cast<double>(model.hidden_size);
  plan.vocab_size = static_cast<double>(model.vocab_size);
  plan.vocab_rows = per_rank(plan.vocab_size, parallelism.tp);
  plan.activation_bytes = model.activations.bytes();
  plan.embedding_bytes = model.head_weights.bytes();
  const std::vector<int32_t> windows = model.windows();
  for (const LayerGroup& group : model.groups) {
    GroupPlan layer;
    layer.num_layers = group.num_layers;
    layer.window_index = window_index(windows, group.attention.tokens_read());
    if (group.attention.latent) {
      plan_latent_attention(group.attention, model, parallelism.tp, layer);
    } else if (group.attention.any()) {
      plan_dense_attention(group.attention, model, parallelism.tp, layer);
    }
    if (group.state.any()) plan_state(group.state, model, parallelism.tp, layer);
    if (model.source.is_read_by(group)) plan_cross_products(model, parallelism.tp, layer);
    layer.num_reductions =
        (group.attention.any() || group.state.any() ? 1 : 0) + (group.ffn.any() ? 1 : 0);
    if (group.more_elements > 0) {
      layer.linears.push_back({Kernel::kMlp,
                               static_cast<double>(group.more_elements) / plan.hidden_size,
                               plan.hidden_size, model.weights});
    }
    plan_ffn(group.ffn, model, parallelism, layer);
    plan_elementwise(group, model, parallelism.tp, layer);
    plan.groups.push_back(std::move(layer));
  }
  if (model.source.any()) plan_source(model, parallelism, plan);
  if (model.tower.any()) plan_tower(model, plan);
  return plan;
}

KernelTime latent_copies_time(const GroupPlan& group, double tokens, double activation_bytes,
                              const Hardware& hardware) {
  // The constants are fitted to one half of the measured modules of DeepSeek-V3 on H100 (vLLM
  // 0.24).
  constexpr double kKernels = 33;
  constexpr double kPasses = 8.8;
  if (group.latent_width <= 0 || hardware.num_units == 0) return {};
  KernelTime time = elementwise_time(kPasses * tokens * group.latent_width * activation_bytes, 0,
                                     kKernels, hardware);
  time.bound_us = time.activation_bytes = 0;
  return time;
}

double distinct_experts(double num_experts, double experts_per_token, double tokens) {
  return num_experts * (1 - std::pow(1 - experts_per_token / num_experts, tokens));
}

}  // namespace quire
