#include "nn/products/block_norm.h"

#include "device/gpu_range.h"
#include "kernels/api/gated_norm.h"
#include "kernels/api/norm.h"

namespace quire {

void run_block_norm(Stream& stream, const DecoderSpec& spec, const BlockNorm& norm) {
  const GpuRange range(stream, "norm");
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
