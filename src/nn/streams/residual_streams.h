// ResidualStreams computes, for one batch at a time, the residual streams of StreamsSpec and the
// linear map beside attention:
//
//   spread(hidden);                       // the embedding
//   for each layer: predict(hidden);      // what the layer reads
//     begin_attention(normed); …; end_attention(hidden);
//     correct(hidden, …);                 // what it has made
//   merge(hidden);                        // what the head reads
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "nn/products/linear_product.h"
#include "nn/spec/batch_sizes.h"
#include "nn/spec/streams_spec.h"
#include "nn/weights/stream_weights.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// Borrows its arguments. One thread at a time may use it.
class ResidualStreams {
 public:
  static int64_t memory_bytes(const StreamsSpec& spec, const BatchSizes& sizes);

  ResidualStreams(const StreamsSpec& spec, const StreamWeights& weights, const BatchSizes& sizes,
                  Stream& stream, Arena& arena);

  // `hidden` is [T, E] in all of these, with at most max_tokens rows.
  void spread(const float* hidden, int64_t num_tokens, void* linear_workspace);
  void predict(size_t layer, float* hidden, int64_t num_tokens, void* linear_workspace);
  // `normed` [T, E] is the input of the layer's attention.
  void begin_attention(size_t layer, ConstActivations normed, int64_t num_tokens,
                       void* linear_workspace);
  // `hidden` is the residual stream after the attention's output was added.
  void end_attention(float* hidden, int64_t num_tokens);
  // `hidden` is the layer's output; it becomes the stream that gates the layer's own input.
  void correct(size_t layer, float* hidden, int64_t num_tokens, void* linear_workspace);
  // Adds x [T, E] to all streams but the first.
  void add(const float* x, int64_t num_tokens);
  void merge(float* hidden, int64_t num_tokens, void* linear_workspace);

 private:
  struct Buffers;
  float* stream_rows(int64_t index) { return streams_ + index * sizes_.width; }
  int64_t row() const { return spec_.count * sizes_.width; }
  // to [T, E] = x [T, E], with rows apart as the strides say.
  void copy(ConstActivations x, int64_t x_stride, float* to, int64_t to_stride, int64_t num_tokens);
  // coefs_ = map * tanh(router(norm(x))).
  void route(size_t layer, const LinearWeights& map, const float* x, int64_t num_tokens,
             void* linear_workspace);
  void multiply(const LinearWeights& weights, ConstActivations x, int64_t x_stride,
                const Columns& y, int64_t num_tokens, void* linear_workspace);

  const StreamsSpec& spec_;
  const StreamWeights& weights_;
  const BatchSizes sizes_;
  Stream& stream_;
  float* streams_;    // [T, S, E]
  float* scratch_;    // [T, E]
  float* router_;     // [T, S]
  float* coefs_;      // [T, S * S]
  float* beside_;     // [T, E]: added beside the attention's output
  float* narrow_;     // [T, R]
  Activations read_;  // [T, max(E, R)]: inputs of products, if these do not read floats
};

}  // namespace quire
