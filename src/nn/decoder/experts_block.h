// ExpertsBlock computes the routed experts of every layer that has some: the router's logits, the
// choice of experts, and the experts' outputs. It owns no memory; its buffers lie in the decoder's
// arena.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "device/stream.h"
#include "kernels/api/experts.h"
#include "nn/decoder_buffers.h"
#include "nn/decoder_spec.h"
#include "nn/experts/slot_dealer.h"
#include "nn/products/linear_product.h"
#include "nn/rank_exchange.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// Borrows its arguments. One thread at a time may use it.
class ExpertsBlock {
 public:
  // Returns the bytes that it takes from its arena; 0 without experts. The weights need not be
  // loaded.
  static int64_t memory_bytes(const DecoderSpec& spec, const DecoderWeights& weights,
                              const BlockLimits& limits, const Stream& stream);

  ExpertsBlock(const DecoderSpec& spec, const DecoderWeights& weights, const BlockLimits& limits,
               BatchLinears& linears, Arena& arena);

  // Must be called when the layer's experts have moved to other slots or to other memory.
  void take_weights(size_t layer);
  // Starts to count the tokens of each expert of each layer, until take_counts().
  void count_tokens();
  std::vector<std::vector<int64_t>> take_counts();  // by layer, by expert

  // out [T, E] = (accumulate ? out : 0) + the output of the layer's experts for x [T, E], for up to
  // max_tokens tokens, which are the selected ones of the batch (BatchLinears::select()).
  void run(size_t layer, ConstActivations x, Activations out, bool accumulate, int64_t num_tokens);

  // For ExpertsSpec::own_norms: dense [T, E], the output of the MLP beside the experts, becomes
  // norm(dense) + norm(the experts' output for `hidden`).
  void add_beside(size_t layer, const float* hidden, Activations dense, int64_t num_tokens);

  // Multiplies h [T, F], the intermediate values of the shared MLP, by each token's weight for it.
  // Does nothing if every token has weight 1.
  void scale_shared(size_t layer, ConstActivations x, Activations h, int64_t num_tokens);

 private:
  // Chooses the experts of each token: writes their slots to expert_ids_ and their weights to
  // expert_weights_.
  void route(size_t layer, ConstActivations x, int64_t num_tokens);
  void multiply(size_t layer, ConstActivations x, Activations out, bool accumulate,
                int64_t num_tokens);

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  BatchLinears& linears_;
  Stream& stream_;
  RankExchange* ranks_;
  std::vector<std::vector<ExpertWeights>> views_;  // per layer
  // By layer; set where experts are spread over ranks.
  std::vector<std::optional<SlotDealer>> dealers_;
  std::vector<std::vector<int64_t>> counts_;  // per layer, while tokens are counted
  float* logits_ = nullptr;                   // [max_tokens, X]
  int32_t* expert_ids_ = nullptr;             // [max_tokens, k]
  float* expert_weights_ = nullptr;           // [max_tokens, k]
  void* workspace_ = nullptr;
  float* input_logits_ = nullptr;  // [max_tokens], if experts weigh their inputs
  Activations in_;                 // [max_tokens, E] each, with own norms or weighted inputs
  Activations out_;
};

}  // namespace quire
