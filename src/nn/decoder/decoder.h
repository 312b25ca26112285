// Decoder does the forward pass of every family: embedding, then per layer attention over the paged
// cache or a mixer with a state, and MLP, then the head for chosen rows, or hidden states for
// whoever pools them. An encoder is a decoder whose attention is not causal. A call takes one
// flattened batch; nothing is allocated after construction.
//
//   Decoder decoder(spec, weights, {.max_tokens = 2048, .max_reqs = 64, …}, stream, arena);
//   decoder.bind_cache(layers);
//   decoder.forward(inputs);
//   decoder.logits(rows, out);
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
  // `ranks` belongs to a rank that computes its share of a model, which `spec` is then; it is null
  // where one decoder computes all.
  Decoder(const DecoderSpec& spec, const DecoderWeights& weights, const DecoderLimits& limits,
          Stream& stream, Arena& arena, RankExchange* ranks = nullptr);

  // There is one cache per layer. `states` may be empty for models without.
  void bind_cache(std::vector<LayerCache> layers, std::vector<StateView> states = {});

  // Leaves the hidden states of the batch ready for logits(), until the next call.
  void forward(const ForwardInputs& inputs);

  // What forward() begins with: who runs its kernels as a captured graph calls it before, since
  // logits() is to know which rows have adapters.
  void take_adapters(const ForwardInputs& inputs);
  // Graphs run forward() in parts: for each layer its piece, then mix(), and one piece more. Piece
  // p is what lies between the mixers of layers p - 1 and p, and the first begins with the
  // embedding: all of it depends on the arrays and num_tokens alone, and on no request.
  size_t num_pieces() const { return spec_.layers.size() + 1; }
  void run_piece(const ForwardInputs& inputs, size_t piece);
  void mix(const ForwardInputs& inputs, size_t layer);

  // [T, E], float: without an embedding (WeightOptions) what forward() goes on from; then what the layers
  // before the last piece that has run have come to, before the final norm.
  float* hidden() { return hidden_; }

  ExpertsBlock* experts() { return ffn_->experts(); }  // null: there are none
  // What becomes of the residual stream that the last forward() left: logits, final states.
  DecoderHead& head() { return *head_; }

 private:
  void embed(const ForwardInputs& inputs);
  void embed_tokens(const ForwardInputs& inputs);
  const void* position_row(int64_t row) const;  // of the learned position table, or null
  void mixer_input(const ForwardInputs& inputs, size_t layer);
  void output_block(size_t layer, int64_t num_tokens);
  void ffn_block(const ForwardInputs& inputs, size_t layer);
  // Computes the rest of a block before the layer's mixer with a state, and what that mixer reads.
  void shared_block(size_t layer, int64_t num_tokens);
  // What a layer adds and multiplies behind its MLP.
  void end_layer(const ForwardInputs& inputs, size_t layer);
  // Rows of the residual stream as products read them, which no norm has made.
  ConstActivations plain_input(const float* hidden, int64_t num_tokens);
  // What the MLP reads of `count` tokens from `begin` on, whose residual stream is `hidden`.
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
  std::optional<LoraBatch> lora_;        // with adapters
  std::optional<SharedBlocks> shared_;   // of models with blocks that layers share
  std::optional<BatchLinears> linears_;  // this and the next three: from construction on
  std::optional<AttentionBlock> attention_;
  std::optional<FfnBlock> ffn_;
  std::optional<DecoderHead> head_;
  std::optional<LayerInputs> layer_inputs_;
  std::optional<ResidualStreams> streams_;
  std::optional<DraftInput> draft_input_;  // of models that draft from hidden states
  std::optional<StateBlock> states_;       // of models with states
  std::vector<StateView> state_views_;     // per layer
};

}  // namespace quire
