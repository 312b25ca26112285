#include "nn/products/block_norm.h"

#include "device/gpu_range.h"
#include "kernels/api/gated_norm.h"
#include "kernels/api/norm.h"

namespace quire {

namespace {

void run_norm(Stream& stream, const DecoderSpec& spec, const BlockNorm& norm) {
  if (spec.block.norm == NormKind::kLayer) {
    layer_norm(stream, {.x = norm.x,
                        .weight = norm.weights.weight,
                        .bias = norm.weights.bias,
                        .out = norm.out,
                        .rows = norm.rows,
                        .eps = spec.norm_eps,
                        .num_tokens = norm.num_tokens,
                        .hidden_size = spec.hidden_size});
    return;
  }
  rms_norm(stream, {.x = norm.x,
                    .weight = norm.weights.weight,
                    .out = norm.out,
                    .rows = norm.rows,
                    .eps = spec.norm_eps,
                    .num_tokens = norm.num_tokens,
                    .hidden_size = spec.hidden_size});
}

}  // namespace

void run_block_norm(Stream& stream, const DecoderSpec& spec, const BlockNorm& norm,
                    LoraBatch* lora) {
  const GpuRange range(stream, "norm");
  if (lora == nullptr) return run_norm(stream, spec, norm);
  lora->for_each_norm(
      norm.weights, norm.num_tokens, [&](int64_t first, int64_t count, const NormWeights& weights) {
        run_norm(stream, spec,
                 {.weights = weights,
                  .x = norm.rows == nullptr ? norm.x.from(first * spec.hidden_size) : norm.x,
                  .out = norm.out.from(first * spec.hidden_size),
                  .num_tokens = count,
                  .rows = norm.rows == nullptr ? nullptr : norm.rows + first});
      });
}

void scale_columns(Stream& stream, const Columns& x, int64_t size, float scale,
                   int64_t num_tokens) {
  gated_norm(stream, {.x = x.data,
                      .x_stride = x.stride,
                      .normalizes = false,
                      .scale = scale,
                      .num_tokens = num_tokens,
                      .size = size,
                      .group_size = size});
}

}  // namespace quire
