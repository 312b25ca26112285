#include "nn/shared/shared_blocks.h"

#include <algorithm>

#include "device/gpu_range.h"
#include "kernels/api/norm.h"

namespace quire {

struct SharedBlocks::Buffers {
  int64_t rows = 0, narrow = 0;  // rows: of [T, E]

  Buffers(const SharedWeights& weights, const BatchSizes& sizes) {
    for (const SharedBlockWeights& layer : weights) {
      if (layer.first_use < 0) continue;
      rows = sizes.max_tokens * sizes.width;
      narrow = std::max({narrow, sizes.max_tokens * layer.gate_down.weight.n,
                         sizes.max_tokens * layer.qkv_down.weight.n});
    }
  }
};

int64_t SharedBlocks::memory_bytes(const SharedWeights& weights, const BatchSizes& sizes) {
  const Buffers buffers(weights, sizes);
  int64_t bytes = 0;
  for (const int64_t count :
       {buffers.rows, 2 * buffers.rows, buffers.rows, buffers.rows, buffers.narrow})
    bytes += Arena::padded(count * int64_t{sizeof(float)});
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
  narrow_ = arena.allocate<float>(buffers.narrow);
}

void SharedBlocks::begin(const float* embedded, int64_t num_tokens) {
  std::copy_n(embedded, num_tokens * sizes_.width, embedded_);
}

const float* SharedBlocks::pairs(size_t layer, const float* hidden, int64_t num_tokens) {
  const int64_t width = sizes_.width;
  for (int64_t t = 0; t < num_tokens; ++t) {
    std::copy_n(hidden + t * width, width, pairs_ + 2 * t * width);
    std::copy_n(embedded_ + t * width, width, pairs_ + (2 * t + 1) * width);
  }
  rms_norm(stream_, {.x = pairs_,
                     .weight = weights_[static_cast<size_t>(weights_[layer].first_use)].pair_norm,
                     .out = pairs_,
                     .eps = sizes_.norm_eps,
                     .num_tokens = num_tokens,
                     .hidden_size = 2 * width});
  return pairs_;
}

void SharedBlocks::update_qkv(size_t layer, float* qkv, int64_t num_tokens,
                              void* linear_workspace) {
  const SharedBlockWeights& weights = weights_[layer];
  if (weights.qkv_down.is_empty()) return;
  const GpuRange range(stream_, "update qkv", layer);
  const int64_t rank = weights.query_up.weight.k;
  multiply(weights.qkv_down, pairs_, 2 * sizes_.width, {narrow_, 3 * rank}, true, num_tokens,
           linear_workspace);
  const int64_t stride =
      weights.query_up.weight.n + weights.key_up.weight.n + weights.value_up.weight.n;
  const float* from = narrow_;
  for (const LinearWeights* up : {&weights.query_up, &weights.key_up, &weights.value_up}) {
    multiply(*up, from, 3 * rank, {qkv, stride}, false, num_tokens, linear_workspace);
    from += rank;
    qkv += up->weight.n;
  }
}

void SharedBlocks::update_gate_up(size_t layer, const float* x, float* gate_up, int64_t num_tokens,
                                  void* linear_workspace) {
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
  std::copy_n(hidden, num_tokens * width, mixed_);
  multiply(weights_[layer].out, inside_, width, {mixed_, width}, false, num_tokens,
           linear_workspace);
  return mixed_;
}

void SharedBlocks::multiply(const LinearWeights& weights, const float* x, int64_t x_stride,
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
