// FfnBlock computes the MLP and the routed experts of every layer of a decoder. It owns no memory;
// its buffers lie in the decoder's arena.
#pragma once

#include <cstdint>
#include <optional>

#include "nn/decoder/experts_block.h"
#include "nn/decoder_buffers.h"
#include "nn/decoder_spec.h"
#include "nn/products/linear_product.h"
#include "nn/shared/shared_blocks.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// Borrows what it is made of. One thread at a time may use it.
class FfnBlock {
 public:
  // `shared` belongs to models with blocks that layers share; else it is null.
  FfnBlock(const DecoderSpec& spec, const DecoderWeights& weights, const DecoderLimits& limits,
           BatchLinears& linears, SharedBlocks* shared, Arena& arena);

  // Computes out [T, E] += (or =) what the layer's experts and its MLP make of x [T, E], for up to
  // DecoderLimits::mlp_tokens tokens.
  void run(size_t layer, ConstActivations x, Activations out, int64_t num_tokens, bool accumulate);
  // With ExpertsSpec::own_norms: dense [T, E], which run() has made of the same tokens, becomes
  // norm(dense) + norm(what the layer's experts make of hidden [T, E]).
  void add_experts_beside(size_t layer, const float* hidden, Activations dense, int64_t num_tokens);

  ExpertsBlock* experts() { return experts_ ? &*experts_ : nullptr; }  // null: there are none

 private:
  // Computes the first half of the MLP into `inside` [T, F]. Its rows lie apart only where
  // gates_in_product() and no adapter changes the matrix.
  void activate(size_t layer, ConstActivations x, const Columns& inside, int64_t num_tokens);
  void activate_in_product(size_t layer, ConstActivations x, const Columns& inside,
                           int64_t num_tokens);
  // Whether one call makes the product by gate and up, and its activation.
  bool gates_in_product(const FfnSpec& ffn, const LayerWeights& weights) const;

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  BatchLinears& linears_;
  SharedBlocks* shared_;
  Stream& stream_;
  std::optional<ExpertsBlock> experts_;  // of models with experts
  // These have room for the widest layer:
  Activations gate_up_;  // [mlp_tokens, 2 F] or [mlp_tokens, F]
  Activations inside_;   // [mlp_tokens, F] of layers with a gate; others use gate_up_
};

}  // namespace quire
