#include "nn/streams/residual_streams.h"

#include <algorithm>
#include <numbers>

#include "device/gpu_range.h"
#include "kernels/api/activation.h"
#include "kernels/api/linear.h"
#include "kernels/api/norm.h"
#include "kernels/api/streams/residual_streams.h"

namespace quire {

struct ResidualStreams::Sizes {
  int64_t streams = 0, scratch = 0, router = 0, coefs = 0, beside = 0, narrow = 0;

  Sizes(const DecoderSpec& spec, int64_t max_tokens) {
    const int64_t count = spec.streams.count;
    if (!spec.streams.any()) return;
    scratch = max_tokens * spec.hidden_size;
    streams = count * scratch;
    router = max_tokens * count;
    coefs = count * router;
    if (spec.streams.laurel_rank == 0) return;
    beside = scratch;
    narrow = max_tokens * spec.streams.laurel_rank;
  }
};

int64_t ResidualStreams::memory_bytes(const DecoderSpec& spec, int64_t max_tokens) {
  const Sizes sizes(spec, max_tokens);
  int64_t bytes = 0;
  for (const int64_t count :
       {sizes.streams, sizes.scratch, sizes.router, sizes.coefs, sizes.beside, sizes.narrow})
    bytes += Arena::padded(count * int64_t{sizeof(float)});
  return bytes;
}

ResidualStreams::ResidualStreams(const DecoderSpec& spec, const DecoderWeights& weights,
                                 int64_t max_tokens, Stream& stream, Arena& arena)
    : spec_(spec), weights_(weights), stream_(stream) {
  const Sizes sizes(spec, max_tokens);
  streams_ = arena.allocate<float>(sizes.streams);
  scratch_ = arena.allocate<float>(sizes.scratch);
  router_ = arena.allocate<float>(sizes.router);
  coefs_ = arena.allocate<float>(sizes.coefs);
  beside_ = arena.allocate<float>(sizes.beside);
  narrow_ = arena.allocate<float>(sizes.narrow);
}

void ResidualStreams::spread(const float* hidden, int64_t num_tokens, void* linear_workspace) {
  const GpuRange range(stream_, "streams begin");
  const int64_t width = spec_.hidden_size;
  for (int64_t t = 0; t < num_tokens; ++t)
    std::copy_n(hidden + t * width, width, streams_ + t * row());
  for (int64_t i = 1; i < spec_.streams.count; ++i) {
    multiply(weights_.streams().in[static_cast<size_t>(i - 1)], hidden, width,
             {stream_rows(i), row()}, num_tokens, linear_workspace);
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
  const LayerStreamWeights& weights = weights_.layer(layer).streams;
  const int64_t count = spec_.streams.count;
  rms_norm(stream_, {.x = x,
                     .weight = weights.router_norm,
                     .out = scratch_,
                     .eps = spec_.norm_eps,
                     .num_tokens = num_tokens,
                     .hidden_size = spec_.hidden_size});
  multiply(weights.router, scratch_, spec_.hidden_size, {router_, count}, num_tokens,
           linear_workspace);
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
  const int64_t width = spec_.hidden_size;
  const float* const active = stream_rows(spec_.streams.active);
  for (int64_t t = 0; t < num_tokens; ++t)
    std::copy_n(active + t * row(), width, hidden + t * width);
  route(layer, weights_.layer(layer).streams.predict, hidden, num_tokens, linear_workspace);
  predict_streams(stream_, {.streams = streams_,
                            .coefs = coefs_,
                            .active_out = hidden,
                            .active = spec_.streams.active,
                            .num_tokens = num_tokens,
                            .num_streams = spec_.streams.count,
                            .hidden_size = width});
}

void ResidualStreams::begin_attention(size_t layer, const float* normed, int64_t num_tokens,
                                      void* linear_workspace) {
  if (spec_.streams.laurel_rank == 0) return;
  const GpuRange range(stream_, "laurel", layer);
  const LayerStreamWeights& weights = weights_.layer(layer).streams;
  const int64_t width = spec_.hidden_size;
  const int64_t rank = spec_.streams.laurel_rank;
  multiply(weights.laurel_down, normed, width, {narrow_, rank}, num_tokens, linear_workspace);
  multiply(weights.laurel_up, narrow_, rank, {scratch_, width}, num_tokens, linear_workspace);
  std::copy_n(normed, num_tokens * width, beside_);
  rms_norm(stream_, {.x = scratch_,
                     .weight = weights.laurel_norm,
                     .add_to = beside_,
                     .eps = spec_.norm_eps,
                     .num_tokens = num_tokens,
                     .hidden_size = width});
}

void ResidualStreams::end_attention(float* hidden, int64_t num_tokens) {
  if (spec_.streams.laurel_rank == 0) return;
  add_scaled(stream_, {.x = hidden,
                       .x_stride = spec_.hidden_size,
                       .y = beside_,
                       .y_stride = spec_.hidden_size,
                       .scale = 1.0f / std::numbers::sqrt2_v<float>,
                       .num_tokens = num_tokens,
                       .hidden_size = spec_.hidden_size});
}

void ResidualStreams::correct(size_t layer, float* hidden, int64_t num_tokens,
                              void* linear_workspace) {
  const GpuRange range(stream_, "streams correct", layer);
  const LayerStreamWeights& weights = weights_.layer(layer).streams;
  route(layer, weights.correct, hidden, num_tokens, linear_workspace);
  correct_streams(stream_, {.streams = streams_,
                            .made = hidden,
                            .coefs = coefs_,
                            .active = spec_.streams.active,
                            .active_out = hidden,
                            .scale = weights.scale,
                            .num_tokens = num_tokens,
                            .num_streams = spec_.streams.count,
                            .hidden_size = spec_.hidden_size});
}

void ResidualStreams::add(const float* x, int64_t num_tokens) {
  for (int64_t i = 1; i < spec_.streams.count; ++i) {
    add_scaled(stream_, {.x = stream_rows(i),
                         .x_stride = row(),
                         .y = x,
                         .y_stride = spec_.hidden_size,
                         .num_tokens = num_tokens,
                         .hidden_size = spec_.hidden_size});
  }
}

void ResidualStreams::merge(float* hidden, int64_t num_tokens, void* linear_workspace) {
  const GpuRange range(stream_, "streams end");
  const int64_t width = spec_.hidden_size;
  const int64_t count = spec_.streams.count;
  for (int64_t t = 0; t < num_tokens; ++t)
    std::copy_n(streams_ + t * row(), width, hidden + t * width);
  for (int64_t i = 1; i < count; ++i) {
    multiply(weights_.streams().out[static_cast<size_t>(i - 1)], stream_rows(i), row(),
             {scratch_, width}, num_tokens, linear_workspace);
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

void ResidualStreams::multiply(const LinearWeights& weights, const float* x, int64_t x_stride,
                               const Rows& y, int64_t num_tokens, void* linear_workspace) {
  linear(stream_, {.x = x,
                   .x_stride = x_stride,
                   .weight = &weights.weight.parts.front(),
                   .y = y.data,
                   .y_stride = y.stride,
                   .num_rows = num_tokens,
                   .workspace = linear_workspace});
}

}  // namespace quire
