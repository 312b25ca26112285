#include "nn/products/linear_product.h"

#include <algorithm>

#include "base/check.h"
#include "device/gpu_range.h"
#include "nn/rank_exchange.h"

namespace quire {

namespace {

// Columns of `num_rows` rows.
struct Block {
  const float* rows;
  int64_t stride, width;
};

// Writes to out [num_rows, width], with rows `out_stride` apart, the values of `in` clipped to
// bounds[0] and bounds[1].
void clamp_rows(const Block& in, const float* bounds, int64_t num_rows, float* out,
                int64_t out_stride) {
  for (int64_t row = 0; row < num_rows; ++row) {
    const float* const from = in.rows + row * in.stride;
    std::transform(from, from + in.width, out + row * out_stride,
                   [&](float value) { return std::min(std::max(value, bounds[0]), bounds[1]); });
  }
}

// Computes the product of one part of a matrix with bounds, whose outputs begin at column `first`.
void run_clamped(Stream& stream, const LinearProduct& product, const PackedWeight& part,
                 const float* bounds, int64_t first) {
  QUIRE_CHECK(!product.accumulate && product.clamped != nullptr && product.weights.bias == nullptr,
              "a product with bounds adds to nothing");
  const int64_t x_stride = product.x_stride > 0 ? product.x_stride : part.spec.k;
  const int64_t y_stride = product.y_stride > 0 ? product.y_stride : product.weights.weight.n;
  float* const y = static_cast<float*>(product.y) + first;
  clamp_rows({product.x, x_stride, part.spec.k}, bounds, product.num_tokens, product.clamped,
             part.spec.k);
  linear(stream, {.x = product.clamped,
                  .x_stride = part.spec.k,
                  .weight = &part,
                  .y = y,
                  .y_stride = y_stride,
                  .num_rows = product.num_tokens,
                  .workspace = product.workspace});
  clamp_rows({y, y_stride, part.spec.n}, bounds + 2, product.num_tokens, y, y_stride);
}

}  // namespace

void run_linear(Stream& stream, const LinearProduct& product, LoraBatch* lora) {
  const MatrixWeight& matrix = product.weights.weight;
  const float* const bias = product.weights.bias;
  const int64_t x_stride = product.x_stride > 0 ? product.x_stride : matrix.k;
  const int64_t y_stride = product.y_stride > 0 ? product.y_stride : matrix.n;
  const LoraBatch::Product changed{matrix,    bias,     product.x,        x_stride,
                                   product.y, y_stride, product.workspace};
  if (lora != nullptr) lora->prepare(changed);
  int64_t first = 0;  // of the part, among the matrix's outputs
  const float* bounds = product.weights.bounds;
  for (const PackedWeight& part : matrix.parts) {
    if (bounds != nullptr) {
      run_clamped(stream, product, part, bounds, first);
      bounds += 4;
      first += part.spec.n;
      continue;
    }
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
  if (lora != nullptr) lora->apply(changed);
}

bool BatchLinears::has_updates(const LinearWeights& weights) const {
  return shared_.lora != nullptr && shared_.lora->changes(weights.weight);
}

void BatchLinears::select(int64_t begin, int64_t count) {
  if (shared_.lora != nullptr) shared_.lora->select(begin, count);
}

void BatchLinears::select(std::span<const int32_t> tokens) {
  if (shared_.lora != nullptr) shared_.lora->select(tokens);
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
              .workspace = shared_.workspace,
              .clamped = shared_.clamped},
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
