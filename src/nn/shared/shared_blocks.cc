#include "nn/shared/shared_blocks.h"

#include <algorithm>

#include "device/gpu_range.h"
#include "kernels/api/linear.h"
#include "kernels/api/norm.h"

namespace quire {

struct SharedBlocks::Sizes {
  int64_t rows = 0, narrow = 0;  // rows: of [T, E]

  Sizes(const DecoderSpec& spec, int64_t max_tokens) {
    for (const LayerSpec& layer : spec.layers) {
      if (!layer.shared.any()) continue;
      rows = max_tokens * spec.hidden_size;
      narrow = max_tokens * layer.shared.update_rank * (layer.shared.updates_attention ? 3 : 1);
    }
  }
};

int64_t SharedBlocks::memory_bytes(const DecoderSpec& spec, int64_t max_tokens) {
  const Sizes sizes(spec, max_tokens);
  int64_t bytes = 0;
  for (const int64_t count : {sizes.rows, 2 * sizes.rows, sizes.rows, sizes.rows, sizes.narrow})
    bytes += Arena::padded(count * int64_t{sizeof(float)});
  return bytes;
}

SharedBlocks::SharedBlocks(const DecoderSpec& spec, const DecoderWeights& weights,
                           int64_t max_tokens, Stream& stream, Arena& arena)
    : spec_(spec), weights_(weights), stream_(stream) {
  const Sizes sizes(spec, max_tokens);
  embedded_ = arena.allocate<float>(sizes.rows);
  pairs_ = arena.allocate<float>(2 * sizes.rows);
  inside_ = arena.allocate<float>(sizes.rows);
  mixed_ = arena.allocate<float>(sizes.rows);
  narrow_ = arena.allocate<float>(sizes.narrow);
}

void SharedBlocks::begin(const float* embedded, int64_t num_tokens) {
  std::copy_n(embedded, num_tokens * spec_.hidden_size, embedded_);
}

const float* SharedBlocks::pairs(size_t layer, const float* hidden, int64_t num_tokens) {
  const int64_t width = spec_.hidden_size;
  for (int64_t t = 0; t < num_tokens; ++t) {
    std::copy_n(hidden + t * width, width, pairs_ + 2 * t * width);
    std::copy_n(embedded_ + t * width, width, pairs_ + (2 * t + 1) * width);
  }
  rms_norm(stream_, {.x = pairs_,
                     .weight = weights_.block(layer).shared.pair_norm,
                     .out = pairs_,
                     .eps = spec_.norm_eps,
                     .num_tokens = num_tokens,
                     .hidden_size = 2 * width});
  return pairs_;
}

void SharedBlocks::update_qkv(size_t layer, float* qkv, int64_t num_tokens,
                              void* linear_workspace) {
  const SharedBlockWeights& weights = weights_.layer(layer).shared;
  if (weights.qkv_down.is_empty()) return;
  const GpuRange range(stream_, "update qkv", layer);
  const int64_t rank = spec_.layers[layer].shared.update_rank;
  multiply(weights.qkv_down, pairs_, 2 * spec_.hidden_size, {narrow_, 3 * rank}, true, num_tokens,
           linear_workspace);
  const int64_t stride = spec_.layers[layer].attention.qkv_rows();
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
  const SharedBlockWeights& weights = weights_.layer(layer).shared;
  const int64_t rank = spec_.layers[layer].shared.update_rank;
  multiply(weights.gate_down, x, spec_.hidden_size, {narrow_, rank}, true, num_tokens,
           linear_workspace);
  multiply(weights.gate_up, narrow_, rank, {gate_up, weights.gate_up.weight.n}, false, num_tokens,
           linear_workspace);
}

const float* SharedBlocks::end(size_t layer, const float* hidden, int64_t num_tokens,
                               void* linear_workspace) {
  const int64_t width = spec_.hidden_size;
  std::copy_n(hidden, num_tokens * width, mixed_);
  multiply(weights_.layer(layer).shared.out, inside_, width, {mixed_, width}, false, num_tokens,
           linear_workspace);
  return mixed_;
}

void SharedBlocks::multiply(const LinearWeights& weights, const float* x, int64_t x_stride,
                            const Rows& y, bool replaces, int64_t num_tokens,
                            void* linear_workspace) {
  int64_t first = 0;  // of the part, among the outputs
  for (const PackedWeight& part : weights.weight.parts) {
    linear(stream_, {.x = x,
                     .x_stride = x_stride,
                     .weight = &part,
                     .y = y.data + first,
                     .y_stride = y.stride,
                     .accumulate = !replaces,
                     .num_rows = num_tokens,
                     .workspace = linear_workspace});
    first += part.spec.n;
  }
}

}  // namespace quire
