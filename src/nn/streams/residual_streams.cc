#include "nn/streams/residual_streams.h"

#include <algorithm>
#include <numbers>

#include "device/gpu_range.h"
#include "kernels/api/activation.h"
#include "kernels/api/norm.h"
#include "kernels/api/rows/copy_rows.h"
#include "kernels/api/streams/residual_streams.h"
#include "nn/products/product_inputs.h"

namespace quire {

struct ResidualStreams::Buffers {
  int64_t streams = 0, scratch = 0, router = 0, coefs = 0, beside = 0, narrow = 0, read = 0;

  Buffers(const StreamsSpec& spec, const BatchSizes& sizes) {
    if (!spec.any()) return;
    scratch = sizes.max_tokens * sizes.width;
    streams = spec.count * scratch;
    router = sizes.max_tokens * spec.count;
    coefs = spec.count * router;
    if (sizes.activation_type != DType::kF32)
      read = sizes.max_tokens * std::max(sizes.width, spec.laurel_rank);
    if (spec.laurel_rank == 0) return;
    beside = scratch;
    narrow = sizes.max_tokens * spec.laurel_rank;
  }
};

int64_t ResidualStreams::memory_bytes(const StreamsSpec& spec, const BatchSizes& sizes) {
  const Buffers buffers(spec, sizes);
  int64_t bytes = 0;
  for (const int64_t count : {buffers.streams, buffers.scratch, buffers.router, buffers.coefs,
                              buffers.beside, buffers.narrow})
    bytes += Arena::padded(count * int64_t{sizeof(float)});
  return bytes + Arena::padded(buffers.read * size_bytes(sizes.activation_type));
}

ResidualStreams::ResidualStreams(const StreamsSpec& spec, const StreamWeights& weights,
                                 const BatchSizes& sizes, Stream& stream, Arena& arena)
    : spec_(spec), weights_(weights), sizes_(sizes), stream_(stream) {
  const Buffers buffers(spec, sizes);
  streams_ = arena.allocate<float>(buffers.streams);
  scratch_ = arena.allocate<float>(buffers.scratch);
  router_ = arena.allocate<float>(buffers.router);
  coefs_ = arena.allocate<float>(buffers.coefs);
  beside_ = arena.allocate<float>(buffers.beside);
  narrow_ = arena.allocate<float>(buffers.narrow);
  read_ = allocate_activations(arena, sizes.activation_type, buffers.read);
}

void ResidualStreams::spread(const float* hidden, int64_t num_tokens, void* linear_workspace) {
  const GpuRange range(stream_, "streams begin");
  const int64_t width = sizes_.width;
  copy(hidden, width, streams_, row(), num_tokens);
  for (int64_t i = 1; i < spec_.count; ++i) {
    multiply(weights_.in[static_cast<size_t>(i - 1)], hidden, width, {stream_rows(i), row()},
             num_tokens, linear_workspace);
    match_magnitude(stream_, {.x = stream_rows(i),
                              .x_stride = row(),
                              .like = hidden,
                              .like_stride = width,
                              .num_tokens = num_tokens,
                              .hidden_size = width});
  }
}

void ResidualStreams::route(size_t layer, const LinearWeights& map, const float* x,
                            int64_t num_tokens, void* linear_workspace) {
  const LayerStreamWeights& weights = weights_.layers[layer];
  const int64_t count = spec_.count;
  rms_norm(stream_, {.x = x,
                     .weight = weights.router_norm,
                     .out = scratch_,
                     .eps = sizes_.norm_eps,
                     .num_tokens = num_tokens,
                     .hidden_size = sizes_.width});
  multiply(weights.router, scratch_, sizes_.width, {router_, count}, num_tokens, linear_workspace);
  activation(stream_, {.x = router_,
                       .out = router_,
                       .activation = Activation::kTanh,
                       .gated = false,
                       .num_tokens = num_tokens,
                       .ffn_size = count});
  multiply(map, router_, count, {coefs_, map.weight.n}, num_tokens, linear_workspace);
}

void ResidualStreams::predict(size_t layer, float* hidden, int64_t num_tokens,
                              void* linear_workspace) {
  const GpuRange range(stream_, "streams predict", layer);
  const int64_t width = sizes_.width;
  copy(stream_rows(spec_.active), row(), hidden, width, num_tokens);
  route(layer, weights_.layers[layer].predict, hidden, num_tokens, linear_workspace);
  predict_streams(stream_, {.streams = streams_,
                            .coefs = coefs_,
                            .active_out = hidden,
                            .active = spec_.active,
                            .num_tokens = num_tokens,
                            .num_streams = spec_.count,
                            .hidden_size = width});
}

void ResidualStreams::begin_attention(size_t layer, ConstActivations normed, int64_t num_tokens,
                                      void* linear_workspace) {
  if (spec_.laurel_rank == 0) return;
  const GpuRange range(stream_, "laurel", layer);
  const LayerStreamWeights& weights = weights_.layers[layer];
  const int64_t width = sizes_.width;
  const int64_t rank = spec_.laurel_rank;
  multiply(weights.laurel_down, normed, width, {narrow_, rank}, num_tokens, linear_workspace);
  multiply(weights.laurel_up, narrow_, rank, {scratch_, width}, num_tokens, linear_workspace);
  copy(normed, width, beside_, width, num_tokens);
  rms_norm(stream_, {.x = scratch_,
                     .weight = weights.laurel_norm,
                     .add_to = beside_,
                     .eps = sizes_.norm_eps,
                     .num_tokens = num_tokens,
                     .hidden_size = width});
}

void ResidualStreams::end_attention(float* hidden, int64_t num_tokens) {
  if (spec_.laurel_rank == 0) return;
  add_scaled(stream_, {.x = hidden,
                       .x_stride = sizes_.width,
                       .y = beside_,
                       .y_stride = sizes_.width,
                       .scale = 1.0f / std::numbers::sqrt2_v<float>,
                       .num_tokens = num_tokens,
                       .hidden_size = sizes_.width});
}

void ResidualStreams::correct(size_t layer, float* hidden, int64_t num_tokens,
                              void* linear_workspace) {
  const GpuRange range(stream_, "streams correct", layer);
  const LayerStreamWeights& weights = weights_.layers[layer];
  route(layer, weights.correct, hidden, num_tokens, linear_workspace);
  correct_streams(stream_, {.streams = streams_,
                            .made = hidden,
                            .coefs = coefs_,
                            .active = spec_.active,
                            .active_out = hidden,
                            .scale = weights.scale,
                            .num_tokens = num_tokens,
                            .num_streams = spec_.count,
                            .hidden_size = sizes_.width});
}

void ResidualStreams::add(const float* x, int64_t num_tokens) {
  for (int64_t i = 1; i < spec_.count; ++i) {
    add_scaled(stream_, {.x = stream_rows(i),
                         .x_stride = row(),
                         .y = x,
                         .y_stride = sizes_.width,
                         .num_tokens = num_tokens,
                         .hidden_size = sizes_.width});
  }
}

void ResidualStreams::merge(float* hidden, int64_t num_tokens, void* linear_workspace) {
  const GpuRange range(stream_, "streams end");
  const int64_t width = sizes_.width;
  const int64_t count = spec_.count;
  copy(streams_, row(), hidden, width, num_tokens);
  for (int64_t i = 1; i < count; ++i) {
    multiply(weights_.out[static_cast<size_t>(i - 1)], stream_rows(i), row(), {scratch_, width},
             num_tokens, linear_workspace);
    match_magnitude(stream_, {.x = scratch_,
                              .x_stride = width,
                              .like = streams_,
                              .like_stride = row(),
                              .num_tokens = num_tokens,
                              .hidden_size = width});
    add_scaled(stream_, {.x = hidden,
                         .x_stride = width,
                         .y = scratch_,
                         .y_stride = width,
                         .scale = i + 1 == count ? 1.0f / static_cast<float>(count) : 1.0f,
                         .num_tokens = num_tokens,
                         .hidden_size = width});
  }
}

void ResidualStreams::copy(ConstActivations x, int64_t x_stride, float* to, int64_t to_stride,
                           int64_t num_tokens) {
  copy_rows(stream_, {.x = x,
                      .x_stride = x_stride,
                      .out = to,
                      .out_stride = to_stride,
                      .num_tokens = num_tokens,
                      .size = sizes_.width});
}

void ResidualStreams::multiply(const LinearWeights& weights, ConstActivations x, int64_t x_stride,
                               const Columns& y, int64_t num_tokens, void* linear_workspace) {
  const ProductInputs inputs =
      product_inputs(stream_, {x, x_stride}, read_, num_tokens, weights.weight.k);
  run_linear(stream_, {.weights = weights,
                       .x = inputs.x,
                       .x_stride = inputs.x_stride,
                       .y = y.data,
                       .y_stride = y.stride,
                       .num_tokens = num_tokens,
                       .workspace = linear_workspace});
}

}  // namespace quire
