// Decoder computes the forward pass of every family: the embedding, then for each layer attention
// over the paged cache or a mixer with a state, and the MLP, and then the head for chosen rows, or
// hidden states for pooling. An encoder is a decoder whose attention is not causal. A call takes
// one flattened batch. Nothing is allocated after construction.
//
//   Decoder decoder(spec, weights, {.max_tokens = 2048, .max_reqs = 64, …}, stream, arena);
//   decoder.bind_cache(layers);
//   decoder.forward(inputs);
//   decoder.head().logits(rows, out);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/stream.h"
#include "nn/adapters/lora_batch.h"
#include "nn/decoder/attention_block.h"
#include "nn/decoder/decoder_head.h"
#include "nn/decoder/ffn_block.h"
#include "nn/decoder/forward_inputs.h"
#include "nn/decoder/layer_inputs.h"
#include "nn/decoder/state_block.h"
#include "nn/decoder_buffers.h"
#include "nn/decoder_spec.h"
#include "nn/drafting/draft_input.h"
#include "nn/products/linear_product.h"
#include "nn/rank_exchange.h"
#include "nn/shared/shared_blocks.h"
#include "nn/streams/residual_streams.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// Borrows spec, weights, stream and arena. One thread at a time may use it.
class Decoder {
 public:
  // With `ranks`, `spec` is the share of a model that this rank computes; `ranks` is null where one
  // decoder computes the whole model.
  Decoder(const DecoderSpec& spec, const DecoderWeights& weights, const DecoderLimits& limits,
          Stream& stream, Arena& arena, RankExchange* ranks = nullptr);

  // Takes one cache per layer. `states` may be empty for models without states.
  void bind_cache(std::vector<LayerCache> layers, std::vector<StateView> states = {});

  // Computes the hidden states of the batch for logits() and other methods of head(), which can be
  // called until the next forward().
  void forward(const ForwardInputs& inputs);

  // The first part of forward(). A runner that launches a captured graph instead of forward() calls
  // it before the launch, because logits() needs to know which rows have adapters.
  void take_adapters(const ForwardInputs& inputs);
  // Pieces of forward() for graphs: call run_piece() and mix() for each layer, and then run_piece()
  // for the last piece. Piece p lies between the mixers of layers p - 1 and p, and the first one
  // begins with the embedding. The pieces depend only on the arrays and num_tokens, not on the
  // requests.
  size_t num_pieces() const { return spec_.layers.size() + 1; }
  void run_piece(const ForwardInputs& inputs, size_t piece);
  void mix(const ForwardInputs& inputs, size_t layer);

  // [T, E], float. Without an embedding (WeightOptions), forward() reads its input there. Then it
  // holds the residual stream after the layers that have run so far, before the final norm.
  float* hidden() { return hidden_; }

  ExpertsBlock* experts() { return ffn_->experts(); }  // null: there are none
  // Computes logits and final hidden states from the residual stream of the last forward().
  DecoderHead& head() { return *head_; }

 private:
  void embed(const ForwardInputs& inputs);
  void embed_tokens(const ForwardInputs& inputs);
  const void* position_row(int64_t row) const;  // of the learned position table, or null
  void mixer_input(const ForwardInputs& inputs, size_t layer);
  void output_block(size_t layer, int64_t num_tokens);
  void ffn_block(const ForwardInputs& inputs, size_t layer);
  // Computes the rest of a shared block that comes before the layer's mixer with a state, and the
  // input of that mixer.
  void shared_block(size_t layer, int64_t num_tokens);
  // Adds the layer's own input, and scales the residual stream, after the MLP.
  void end_layer(const ForwardInputs& inputs, size_t layer);
  // Returns rows of the residual stream, without a norm, in the type that products read.
  ConstActivations plain_input(const float* hidden, int64_t num_tokens);
  // Returns the input of the MLP for `count` tokens, from `begin` on, whose residual stream is
  // `hidden`.
  ConstActivations mlp_input(const LayerWeights& weights, const float* hidden, int64_t begin,
                             int64_t count);
  void norm(const NormWeights& weights, ConstActivations x, Activations out, int64_t num_tokens);
  // add_to [T, E] += block_out_, normed, scaled or gated.
  void add_changed(const NormWeights& norm, float* add_to, int64_t num_tokens);
  // Does the same for rows [first, first + num_tokens).
  void add_changed_rows(const NormWeights& norm, float* add_to, int64_t first, int64_t num_tokens);

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  DecoderLimits limits_;
  Stream& stream_;
  RankExchange* ranks_;
  float* hidden_;          // [T, E]
  Activations normed_;     // [T, E]
  Activations block_out_;  // [T, E], with norms of outputs
  void* linear_workspace_;
  std::optional<LoraBatch> lora_;        // null without adapters
  std::optional<SharedBlocks> shared_;   // for models with blocks that layers share
  std::optional<BatchLinears> linears_;  // these four are set by the constructor
  std::optional<AttentionBlock> attention_;
  std::optional<FfnBlock> ffn_;
  std::optional<DecoderHead> head_;
  std::optional<LayerInputs> layer_inputs_;
  std::optional<ResidualStreams> streams_;
  std::optional<DraftInput> draft_input_;  // for models that draft from hidden states
  std::optional<StateBlock> states_;       // for models with states
  std::vector<StateView> state_views_;     // per layer
};

}  // namespace quire
