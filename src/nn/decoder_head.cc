// What becomes of the residual stream behind the last layer: final states, logits, pooled scores.
#include <algorithm>

#include "device/gpu_range.h"
#include "kernels/api/activation.h"
#include "kernels/api/norm.h"
#include "nn/decoder.h"

namespace quire {

const float* Decoder::final_hidden(int64_t num_tokens) {
  if (spec_.block.final_norm) run_norm(weights_.final_norm(), hidden_, hidden_, num_tokens);
  return hidden_;
}

void Decoder::head_inputs(int64_t num_tokens, float* out) {
  if (!spec_.block.final_norm) {
    std::copy_n(hidden_, num_tokens * spec_.hidden_size, out);
    return;
  }
  run_norm(weights_.final_norm(), hidden_, out, num_tokens);
  if (spec_.logit_scale == 1.0f) return;
  // Its weights have the scale of the logits.
  const int64_t count = num_tokens * spec_.hidden_size;
  std::transform(out, out + count, out, [&](float x) { return x / spec_.logit_scale; });
}

void Decoder::pooling_layer(size_t index, const float* x, float* y, int64_t num_rows) {
  const PoolingLayerSpec& layer = spec_.pooling.layers[index];
  const PoolingLayerWeights& weights = weights_.pooling_layer(index);
  QUIRE_CHECK(num_rows <= DecoderLimits::kMaxPooledRows, "{} pooled rows", num_rows);
  run_linear(weights.dense, x, y, num_rows, false);
  if (layer.activation) {
    activation(stream_, {.x = y,
                         .out = y,
                         .activation = *layer.activation,
                         .gated = false,
                         .num_tokens = num_rows,
                         .ffn_size = layer.num_outputs});
  }
  if (!layer.norm) return;
  layer_norm(stream_, {.x = y,
                       .weight = weights.norm.weight,
                       .out = y,
                       .eps = spec_.norm_eps,
                       .num_tokens = num_rows,
                       .hidden_size = layer.num_outputs});
}

int64_t Decoder::norm_of(std::span<const int32_t> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  QUIRE_CHECK(count <= limits_.max_logit_rows, "{} rows, at most {}", count,
              limits_.max_logit_rows);
  if (spec_.block.final_norm) {
    run_norm(weights_.final_norm(), hidden_, normed_, count, rows.data());
    return count;
  }
  float* const out = normed_;
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(hidden_ + rows[static_cast<size_t>(i)] * spec_.hidden_size, spec_.hidden_size,
                out + i * spec_.hidden_size);
  }
  return count;
}

void Decoder::logits(std::span<const int32_t> rows, float* out) {
  const GpuRange range(stream_, "logits");
  const int64_t count = norm_of(rows);
  if (ranks_ == nullptr) {
    run_linear(weights_.lm_head(), normed_, out, count, false);
  } else {
    run_linear(weights_.lm_head(), normed_, {ranks_->begin_logits(), spec_.vocab_size}, count,
               false);
    ranks_->gather_logits(count);
    if (ranks_->share().rank > 0) return;  // nobody reads them there
  }
  if (spec_.final_soft_cap > 0.0f) {
    soft_cap(stream_, {.x = out, .cap = spec_.final_soft_cap, .count = count * spec_.num_logits()});
  }
}

void Decoder::greatest_logits(std::span<const int32_t> rows, float* scratch, RowGreatest* found,
                              const uint32_t* const* allowed) {
  QUIRE_CHECK(finds_greatest());
  const LinearWeights& head = weights_.lm_head();
  linear(stream_, {.x = normed_,
                   .x_stride = head.weight.k,
                   .weight = &head.weight.parts.front(),
                   .bias = head.bias,
                   .y = scratch,
                   .y_stride = head.weight.n,
                   .num_rows = norm_of(rows),
                   .workspace = linear_workspace_,
                   .greatest = found,
                   .allowed = allowed});
}

}  // namespace quire
