#include "nn/decoder/decoder_head.h"

#include <algorithm>

#include "device/gpu_range.h"
#include "kernels/api/activation.h"
#include "kernels/api/embedding.h"
#include "kernels/api/norm.h"
#include "kernels/api/rows/copy_rows.h"
#include "nn/drafting/draft_vocab.h"
#include "nn/products/block_norm.h"
#include "nn/rank_exchange.h"

namespace quire {
DecoderHead::DecoderHead(const DecoderSpec& spec, const DecoderWeights& weights,
                         const DecoderLimits& limits, BatchLinears& linears, const Rows& rows)
    : spec_(spec),
      weights_(weights),
      max_logit_rows_(limits.max_logit_rows),
      linears_(linears),
      stream_(linears.stream()),
      rows_(rows) {}

void DecoderHead::norm(Activations out, int64_t num_tokens, const int32_t* rows) {
  run_block_norm(stream_, spec_,
                 {.weights = weights_.final_norm(),
                  .x = rows_.hidden,
                  .out = out,
                  .num_tokens = num_tokens,
                  .rows = rows},
                 linears_.lora());
}

bool DecoderHead::finds_greatest() const {
  return linears_.ranks() == nullptr && spec_.final_soft_cap <= 0.0f &&
         weights_.lm_head().weight.parts.size() == 1;
}

const float* DecoderHead::final_hidden(int64_t num_tokens) {
  linears_.select(0, num_tokens);
  if (spec_.block.final_norm) norm(rows_.hidden, num_tokens);
  return rows_.hidden;
}

void DecoderHead::head_inputs(int64_t num_tokens, float* out) {
  linears_.select(0, num_tokens);
  if (!spec_.block.final_norm) {
    copy_rows(stream_, {.x = rows_.hidden,
                        .x_stride = spec_.hidden_size,
                        .out = out,
                        .out_stride = spec_.hidden_size,
                        .num_tokens = num_tokens,
                        .size = spec_.hidden_size});
    return;
  }
  norm(out, num_tokens);
  if (spec_.logit_scale == 1.0f) return;
  // The weights of the norm include the scale of the logits.
  scale_columns(stream_, {out, spec_.hidden_size}, spec_.hidden_size, 1.0f / spec_.logit_scale,
                num_tokens);
}

void DecoderHead::pooling_layer(size_t index, ConstActivations x, float* y, int64_t num_rows) {
  const PoolingLayerSpec& layer = spec_.pooling.layers[index];
  const PoolingLayerWeights& weights = weights_.pooling_layer(index);
  QUIRE_CHECK(num_rows <= DecoderLimits::kMaxPooledRows, "{} pooled rows", num_rows);
  linears_.run(weights.dense, x, {y}, num_rows);
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

int64_t DecoderHead::norm_of(std::span<const int32_t> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  QUIRE_CHECK(count <= max_logit_rows_, "{} rows, at most {}", count, max_logit_rows_);
  linears_.select(rows);
  if (spec_.block.final_norm) {
    norm(rows_.normed, count, rows.data());
    return count;
  }
  embedding(stream_, {.token_ids = rows.data(),
                      .table = rows_.hidden,
                      .table_dtype = DType::kF32,
                      .out = rows_.normed,
                      .num_tokens = count,
                      .hidden_size = spec_.hidden_size});
  return count;
}

void DecoderHead::logits(std::span<const int32_t> rows, float* out) {
  const GpuRange range(stream_, "logits");
  const int64_t count = norm_of(rows);
  if (RankExchange* const ranks = linears_.ranks(); ranks == nullptr) {
    linears_.run(weights_.lm_head(), rows_.normed, {out, spec_.num_logits()}, count);
    for (int64_t row = 1; spec_.unsaid_tokens > 0 && row <= count; ++row) {
      std::fill_n(out + row * spec_.num_logits() - spec_.unsaid_tokens, spec_.unsaid_tokens,
                  kUnknownLogit);
    }
  } else {
    linears_.run(weights_.lm_head(), rows_.normed, {ranks->begin_logits(), spec_.vocab_size},
                 count);
    ranks->gather_logits(count);
    if (!ranks->reads_logits()) return;
  }
  if (spec_.final_soft_cap > 0.0f) {
    soft_cap(stream_, {.x = out, .cap = spec_.final_soft_cap, .count = count * spec_.num_logits()});
  }
}

bool DecoderHead::greatest_logits(std::span<const int32_t> rows, float* scratch, RowGreatest* found,
                                  const uint32_t* const* allowed) {
  QUIRE_CHECK(finds_greatest());
  const LinearWeights& head = weights_.lm_head();
  linears_.select(rows);
  if (linears_.has_updates(head)) return false;
  linear(stream_, {.x = rows_.normed,
                   .x_stride = head.weight.k,
                   .weight = &head.weight.parts.front(),
                   .bias = head.bias,
                   .y = scratch,
                   .y_stride = head.weight.n,
                   .num_rows = norm_of(rows),
                   .workspace = linears_.workspace(),
                   .greatest = found,
                   .allowed = allowed});
  return true;
}

}  // namespace quire
