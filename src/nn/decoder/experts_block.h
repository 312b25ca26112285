// ExpertsBlock computes the routed experts of every layer that has some: a router's logits, the
// choice, the experts. It owns no memory; its buffers lie in the decoder's arena.
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

// Borrows what it is made of. One thread at a time may use it.
class ExpertsBlock {
 public:
  // What an object takes from its arena; 0 without experts. The
  // weights need not be loaded.
  static int64_t memory_bytes(const DecoderSpec& spec, const DecoderWeights& weights,
                              const BlockLimits& limits, const Stream& stream);

  ExpertsBlock(const DecoderSpec& spec, const DecoderWeights& weights, const BlockLimits& limits,
               BatchLinears& linears, Arena& arena);

  // The layer's experts lie in other slots, or elsewhere in memory, than before.
  void take_weights(size_t layer);
  // From now on counts the tokens that go to each expert of each layer, until take_counts().
  void count_tokens();
  std::vector<std::vector<int64_t>> take_counts();  // by layer, by expert

  // out [T, E] = (accumulate ? out : 0) + what the layer's experts make of x [T, E], for up to
  // max_tokens tokens, the selected ones of the batch (BatchLinears::select()).
  void run(size_t layer, ConstActivations x, Activations out, bool accumulate, int64_t num_tokens);

  // With ExpertsSpec::own_norms: dense [T, E], which the MLP beside the experts has made, becomes
  // norm(dense) + norm(what experts make of hidden).
  void add_beside(size_t layer, const float* hidden, Activations dense, int64_t num_tokens);

  // Multiplies h [T, F], the inside of the MLP that every token goes through, by the share of it
  // that each token takes. Nothing happens where a token takes all of it.
  void scale_shared(size_t layer, ConstActivations x, Activations h, int64_t num_tokens);

 private:
  // Whom the tokens go to, into expert_ids_, which are slots then, and expert_weights_.
  void route(size_t layer, ConstActivations x, int64_t num_tokens);
  void multiply(size_t layer, ConstActivations x, Activations out, bool accumulate,
                int64_t num_tokens);

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  BatchLinears& linears_;
  Stream& stream_;
  RankExchange* ranks_;
  std::vector<std::vector<ExpertWeights>> views_;  // per layer
  // Per layer, where experts are spread over ranks.
  std::vector<std::optional<SlotDealer>> dealers_;
  std::vector<std::vector<int64_t>> counts_;  // per layer, while tokens are counted
  float* logits_ = nullptr;                   // [max_tokens, X]
  int32_t* expert_ids_ = nullptr;             // [max_tokens, k]
  float* expert_weights_ = nullptr;           // [max_tokens, k]
  void* workspace_ = nullptr;
  float* input_logits_ = nullptr;  // [max_tokens], of inputs that are weighed
  Activations in_;  // [max_tokens, E] each, with own norms or inputs that are weighed
  Activations out_;
};

}  // namespace quire
