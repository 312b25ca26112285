// LayerInputs computes the inputs that each layer has of its own beside the residual stream
// (LayerInputSpec; Gemma 4's per-layer embeddings).
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "device/stream.h"
#include "nn/decoder/forward_inputs.h"
#include "nn/decoder_buffers.h"
#include "nn/decoder_spec.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// Borrows its arguments. One thread at a time may use it.
class LayerInputs {
 public:
  static int64_t memory_bytes(const DecoderSpec& spec, const BlockLimits& limits);

  LayerInputs(const DecoderSpec& spec, const DecoderWeights& weights, const BlockLimits& limits,
              Stream& stream, Arena& arena);

  // Computes the inputs of all layers for tokens with the embeddings `embedded` [T, E].
  void prepare(const ForwardInputs& inputs, const float* embedded, void* linear_workspace);
  // Computes hidden [T, E] += norm(up(act(gate(hidden)) * input of the layer)), once per layer and
  // batch.
  void add(size_t layer, float* hidden, int64_t num_tokens, void* linear_workspace);
  // Returns what add() would add, [T, E], valid until the next call.
  const float* make(size_t layer, const float* hidden, int64_t num_tokens, void* linear_workspace);

 private:
  struct Sizes;
  int64_t width() const;  // of the inputs of all layers
  // Returns rows [T, E] in the type that products read.
  ConstActivations read(const float* rows, int64_t num_tokens);
  // Computes scratch_ = up(act(gate(hidden)) * input of the layer).
  void project(size_t layer, const float* hidden, int64_t num_tokens, void* linear_workspace);
  // Writes the norm of scratch_ to `out`, or adds it to `add_to`; the other one is null.
  void norm(size_t layer, float* out, float* add_to, int64_t num_tokens);

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  Stream& stream_;
  TokenId* ids_;        // [T]: rows of the table, if some embeddings are given
  float* inputs_;       // [T, layers * P]
  float* scratch_;      // [T, max(layers * P, E)]
  Activations read_;    // [T, E]: inputs of products, if these do not read floats
  Activations gated_;   // [T, 2 P]
  Activations inside_;  // [T, P]
};

}  // namespace quire
