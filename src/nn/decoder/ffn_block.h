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

// Borrows its arguments. One thread at a time may use it.
class FfnBlock {
 public:
  // `shared` is null unless the model has blocks that layers share.
  FfnBlock(const DecoderSpec& spec, const DecoderWeights& weights, const DecoderLimits& limits,
           BatchLinears& linears, SharedBlocks* shared, Arena& arena);

  // out [T, E] += (or =) the outputs of the layer's experts and of its MLP for x [T, E], for up to
  // DecoderLimits::mlp_tokens tokens.
  void run(size_t layer, ConstActivations x, Activations out, int64_t num_tokens, bool accumulate);
  // For ExpertsSpec::own_norms: dense [T, E], which run() has computed for the same tokens, becomes
  // norm(dense) + norm(the experts' output for hidden [T, E]).
  void add_experts_beside(size_t layer, const float* hidden, Activations dense, int64_t num_tokens);

  ExpertsBlock* experts() { return experts_ ? &*experts_ : nullptr; }  // null: there are none

 private:
  // Computes the first half of the MLP into `inside` [T, F], whose stride exceeds F only if
  // gates_in_product() and no adapter changes the matrix.
  void activate(size_t layer, ConstActivations x, const Columns& inside, int64_t num_tokens);
  void activate_in_product(size_t layer, ConstActivations x, const Columns& inside,
                           int64_t num_tokens);
  // Returns whether one kernel computes the gate and up products and the activation.
  bool gates_in_product(const FfnSpec& ffn, const LayerWeights& weights) const;

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  BatchLinears& linears_;
  SharedBlocks* shared_;
  Stream& stream_;
  std::optional<ExpertsBlock> experts_;  // for models with experts
  // These have room for the widest layer.
  Activations gate_up_;  // [mlp_tokens, 2 F] or [mlp_tokens, F]
  Activations inside_;   // [mlp_tokens, F] of layers with a gate; others use gate_up_
};

}  // namespace quire
