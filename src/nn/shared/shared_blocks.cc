#include "nn/shared/shared_blocks.h"

#include <algorithm>

#include "device/gpu_range.h"
#include "kernels/api/norm.h"
#include "kernels/api/rows/copy_rows.h"
#include "nn/products/product_inputs.h"

namespace quire {

struct SharedBlocks::Buffers {
  int64_t rows = 0, read = 0, narrow = 0;  // `rows` is the size of [T, E]

  Buffers(const SharedWeights& weights, const BatchSizes& sizes) {
    for (const SharedBlockWeights& layer : weights) {
      if (layer.first_use < 0) continue;
      rows = sizes.max_tokens * sizes.width;
      if (sizes.activation_type != DType::kF32) read = rows;
      narrow = std::max({narrow, sizes.max_tokens * layer.gate_down.weight.n,
                         sizes.max_tokens * layer.qkv_down.weight.n});
    }
  }
};

int64_t SharedBlocks::memory_bytes(const SharedWeights& weights, const BatchSizes& sizes) {
  const Buffers buffers(weights, sizes);
  int64_t bytes = 0;
  for (const int64_t count : {buffers.rows, 2 * buffers.rows, buffers.rows, buffers.rows})
    bytes += Arena::padded(count * int64_t{sizeof(float)});
  for (const int64_t count : {2 * buffers.rows, buffers.read, buffers.narrow})
    bytes += Arena::padded(count * size_bytes(sizes.activation_type));
  return bytes;
}

SharedBlocks::SharedBlocks(const SharedWeights& weights, const BatchSizes& sizes, Stream& stream,
                           Arena& arena)
    : weights_(weights), sizes_(sizes), stream_(stream) {
  const Buffers buffers(weights, sizes);
  embedded_ = arena.allocate<float>(buffers.rows);
  pairs_ = arena.allocate<float>(2 * buffers.rows);
  inside_ = arena.allocate<float>(buffers.rows);
  mixed_ = arena.allocate<float>(buffers.rows);
  normed_pairs_ = allocate_activations(arena, sizes.activation_type, 2 * buffers.rows);
  read_ = allocate_activations(arena, sizes.activation_type, buffers.read);
  narrow_ = allocate_activations(arena, sizes.activation_type, buffers.narrow);
}

void SharedBlocks::begin(const float* embedded, int64_t num_tokens) {
  copy_rows(stream_, {.x = embedded,
                      .x_stride = sizes_.width,
                      .out = embedded_,
                      .out_stride = sizes_.width,
                      .num_tokens = num_tokens,
                      .size = sizes_.width});
}

ConstActivations SharedBlocks::pairs(size_t layer, const float* hidden, int64_t num_tokens) {
  const int64_t width = sizes_.width;
  float* to = pairs_;
  for (const float* half : {hidden, static_cast<const float*>(embedded_)}) {
    copy_rows(stream_, {.x = half,
                        .x_stride = width,
                        .out = to,
                        .out_stride = 2 * width,
                        .num_tokens = num_tokens,
                        .size = width});
    to += width;
  }
  rms_norm(stream_, {.x = pairs_,
                     .weight = weights_[static_cast<size_t>(weights_[layer].first_use)].pair_norm,
                     .out = normed_pairs_,
                     .eps = sizes_.norm_eps,
                     .num_tokens = num_tokens,
                     .hidden_size = 2 * width});
  return normed_pairs_;
}

void SharedBlocks::update_qkv(size_t layer, Activations qkv, int64_t num_tokens,
                              void* linear_workspace) {
  const SharedBlockWeights& weights = weights_[layer];
  if (weights.qkv_down.is_empty()) return;
  const GpuRange range(stream_, "update qkv", layer);
  const int64_t rank = weights.query_up.weight.k;
  multiply(weights.qkv_down, normed_pairs_, 2 * sizes_.width, {narrow_, 3 * rank}, true, num_tokens,
           linear_workspace);
  const int64_t stride =
      weights.query_up.weight.n + weights.key_up.weight.n + weights.value_up.weight.n;
  ConstActivations from = narrow_;
  for (const LinearWeights* up : {&weights.query_up, &weights.key_up, &weights.value_up}) {
    multiply(*up, from, 3 * rank, {qkv, stride}, false, num_tokens, linear_workspace);
    from = from.from(rank);
    qkv = qkv.from(up->weight.n);
  }
}

void SharedBlocks::update_gate_up(size_t layer, ConstActivations x, Activations gate_up,
                                  int64_t num_tokens, void* linear_workspace) {
  const GpuRange range(stream_, "update gate and up", layer);
  const SharedBlockWeights& weights = weights_[layer];
  const int64_t rank = weights.gate_up.weight.k;
  multiply(weights.gate_down, x, sizes_.width, {narrow_, rank}, true, num_tokens, linear_workspace);
  multiply(weights.gate_up, narrow_, rank, {gate_up, weights.gate_up.weight.n}, false, num_tokens,
           linear_workspace);
}

const float* SharedBlocks::end(size_t layer, const float* hidden, int64_t num_tokens,
                               void* linear_workspace) {
  const int64_t width = sizes_.width;
  copy_rows(stream_, {.x = hidden,
                      .x_stride = width,
                      .out = mixed_,
                      .out_stride = width,
                      .num_tokens = num_tokens,
                      .size = width});
  const ProductInputs inside = product_inputs(stream_, {inside_, width}, read_, num_tokens, width);
  multiply(weights_[layer].out, inside.x, inside.x_stride, {mixed_, width}, false, num_tokens,
           linear_workspace);
  return mixed_;
}

void SharedBlocks::multiply(const LinearWeights& weights, ConstActivations x, int64_t x_stride,
                            const Columns& y, bool replaces, int64_t num_tokens,
                            void* linear_workspace) {
  run_linear(stream_, {.weights = weights,
                       .x = x,
                       .x_stride = x_stride,
                       .y = y.data,
                       .y_stride = y.stride,
                       .num_tokens = num_tokens,
                       .accumulate = !replaces,
                       .workspace = linear_workspace});
}

}  // namespace quire
