#include "nn/products/linear_product.h"

#include "device/gpu_range.h"
#include "nn/rank_exchange.h"

namespace quire {

void run_linear(Stream& stream, const LinearProduct& product, LoraBatch* lora) {
  const MatrixWeight& matrix = product.weights.weight;
  const float* const bias = product.weights.bias;
  const int64_t x_stride = product.x_stride > 0 ? product.x_stride : matrix.k;
  const int64_t y_stride = product.y_stride > 0 ? product.y_stride : matrix.n;
  int64_t first = 0;  // of the part, among the outputs
  for (const PackedWeight& part : matrix.parts) {
    linear(stream, {.x = product.x,
                    .x_stride = x_stride,
                    .weight = &part,
                    .bias = bias == nullptr ? nullptr : bias + first,
                    .y = product.y.from(first),
                    .y_stride = y_stride,
                    .accumulate = product.accumulate,
                    .num_rows = product.num_tokens,
                    .workspace = product.workspace});
    first += part.spec.n;
  }
  if (lora != nullptr)
    lora->apply({matrix, product.x, x_stride, product.y, y_stride, product.workspace});
}

bool BatchLinears::has_updates(const LinearWeights& weights) const {
  return shared_.lora != nullptr && shared_.lora->changes(weights.weight);
}

void BatchLinears::select(int64_t begin, int64_t count) {
  if (shared_.lora != nullptr) shared_.lora->select(begin, count);
}

void BatchLinears::run(const LinearWeights& weights, ConstActivations x, const Columns& y,
                       int64_t num_tokens, bool accumulate) {
  const GpuRange range(stream_, "linear");
  run_linear(stream_,
             {.weights = weights,
              .x = x,
              .y = y.data,
              .y_stride = y.stride,
              .num_tokens = num_tokens,
              .accumulate = accumulate,
              .workspace = shared_.workspace},
             shared_.lora);
}

void BatchLinears::run_output(const LinearWeights& weights, ConstActivations x, Activations out,
                              int64_t num_tokens, bool accumulate) {
  RankExchange* const ranks = shared_.ranks;
  if (ranks == nullptr) return run(weights, x, {out}, num_tokens, accumulate);
  const int64_t width = ranks->hidden_size();
  run(weights, x, {out.from(ranks->share().outputs(width).begin), width}, num_tokens, accumulate);
  ranks->gather_outputs(out, num_tokens);
}

}  // namespace quire
