// The forward pass of every family: embedding, then per layer attention over the paged cache or a
// mixer with a state, and MLP, then the head for chosen rows, or hidden states for whoever pools
// them. An encoder is a decoder whose attention is not causal. One flattened batch per call;
// nothing is allocated after construction.
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

#include "base/ids.h"
#include "device/stream.h"
#include "kernels/api/kv_cache.h"
#include "nn/adapters/lora_batch.h"
#include "nn/cross_block.h"
#include "nn/decoder_buffers.h"
#include "nn/decoder_spec.h"
#include "nn/decoder_weights.h"
#include "nn/drafting/draft_input.h"
#include "nn/experts_block.h"
#include "nn/latent_block.h"
#include "nn/layer_inputs.h"
#include "nn/rank_exchange.h"
#include "nn/shared/shared_blocks.h"
#include "nn/state_block.h"
#include "nn/streams/residual_streams.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// Layers with one block table (core/kv_spec.h).
struct KvGroupInputs {
  const int64_t* slot_mapping = nullptr;  // [T]
  const int32_t* block_table = nullptr;   // [R, max_blocks]
  int64_t max_blocks = 0;
  // R sequences that these layers see the batch as, instead of its requests: windows of a picture. On
  // CPUs alone.
  int32_t num_windows = 0;                    // R; 0: the requests
  const int32_t* window_start_loc = nullptr;  // [R + 1]
  const int32_t* window_lens = nullptr;       // [R]
};

// Rows of the batch whose embeddings are given, and not those of their tokens: an image's. On CPUs
// alone.
struct GivenRows {
  int64_t first = 0;  // of the batch
  int64_t count = 0;
  const float* rows = nullptr;  // [count, stride], of which E are the embedding
  int64_t stride = 0;           // elements between rows; 0: E
  // So many times E more lie behind each embedding: what the first layers' output is added to, layer
  // by layer (Qwen3-VL's deepstack).
  int64_t num_added = 0;
};

// Copies of the residual stream that enters a layer, or leaves the last one. On CPUs alone.
struct HiddenTap {
  int32_t layer = 0;
  float* out = nullptr;  // [T, E], with rows `stride` apart
  int64_t stride = 0;
};

// All arrays lie where the stream's device reads them.
struct ForwardInputs {
  int64_t num_tokens = 0;                   // T >= 1
  int32_t num_reqs = 0;                     // R >= 1
  const TokenId* input_ids = nullptr;       // [T], each in [0, V)
  const int32_t* positions = nullptr;       // [T]
  const int32_t* axis_positions = nullptr;  // [T, 3], or null: TokenPositions::axes
  const int32_t* token_types = nullptr;     // [T], with DecoderSpec::num_token_types
  // [T], or null: where what each token sees ends, if not with itself (kernels/api/attention.h). On
  // CPUs alone.
  const int32_t* seen_ends = nullptr;
  const int32_t* query_start_loc = nullptr;  // [R + 1]
  const int32_t* seq_lens = nullptr;         // [R]
  int32_t max_query_len = 0;                 // of any request; 0: not known
  std::span<const KvGroupInputs> groups = {};
  StateSegments states = {};  // of models with states: the batch, cut into runs of tokens
  // With DecoderSpec::cross.
  CrossBlock* cross = nullptr;
  CrossSegments cross_segments = {};
  std::span<const LoraRows> adapters = {};  // with DecoderLimits::lora; valid through logits()
  std::span<const GivenRows> given_rows = {};
  std::span<const HiddenTap> taps = {};
  DraftRows draft_rows = {};  // with DecoderSpec::draft_input
};

// The cache of one layer and the group whose block table leads to it; unused without attention.
struct LayerCache {
  KvCacheView view;
  int32_t group = 0;
};

// Borrows spec, weights, stream and arena. One thread at a time.
class Decoder {
 public:
  // `ranks`: of a rank that computes its share of a model, which `spec` is then; null: alone. CPU
  // only.
  Decoder(const DecoderSpec& spec, const DecoderWeights& weights, const DecoderLimits& limits,
          Stream& stream, Arena& arena, RankExchange* ranks = nullptr);

  // One per layer. `states` may be empty for models without.
  void bind_cache(std::vector<LayerCache> layers, std::vector<StateView> states = {});

  // Leaves the hidden states of the batch ready for logits(), until the next call.
  void forward(const ForwardInputs& inputs);

  // forward() in parts, for graphs: for each layer its piece, then mix(), and one piece more.
  // Piece p is what lies between the mixers of layers p - 1 and p, of the first with the
  // embedding: all of it depends on the arrays and num_tokens alone, and on no request.
  size_t num_pieces() const { return spec_.layers.size() + 1; }
  void run_piece(const ForwardInputs& inputs, size_t piece);
  void mix(const ForwardInputs& inputs, size_t layer);

  // [T, E], float: without an embedding (WeightOptions) what forward() goes on from; then what the layers
  // before the last piece that has run have come to, before the final norm.
  float* hidden() { return hidden_; }
  // [T, E]: what the last forward() has come to, behind the final norm. Instead of logits(), once.
  const float* final_hidden(int64_t num_tokens);

  // out [T, E]: what logits() reads of each token, behind the final norm. CPU only.
  void head_inputs(int64_t num_tokens, float* out);
  // The residual stream of a token behind the last layer.
  std::span<const float> last_hidden(int64_t token) const {
    return {hidden_ + token * spec_.hidden_size, static_cast<size_t>(spec_.hidden_size)};
  }

  // y [R, outputs] = layer `index` of DecoderSpec::pooling of x [R, inputs], for up to kMaxPooledRows
  // rows.
  void pooling_layer(size_t index, const float* x, float* y, int64_t num_rows);

  // out [rows.size(), DecoderSpec::num_logits()]: raw logits of the given tokens of the last forward(); at most
  // max_logit_rows. `rows` lies where the device reads it.
  // With ranks all of them call it, and `out` is the group's RankExchange::logits().
  void logits(std::span<const int32_t> rows, float* out);
  // Whether greatest_logits() can be called: a soft cap may make equals of different logits.
  bool finds_greatest() const {
    return ranks_ == nullptr && spec_.final_soft_cap <= 0.0f &&
           weights_.lm_head().weight.parts.size() == 1;
  }
  // As logits(), but keeps only the greatest of each row: in the first rows.size() of `found`,
  // [threads, rows.size()]. `scratch` is as `out`; `allowed` as LinearParams::allowed. CPU only.
  void greatest_logits(std::span<const int32_t> rows, float* scratch, RowGreatest* found,
                       const uint32_t* const* allowed);

 private:
  void embed(const ForwardInputs& inputs);
  void embed_tokens(const ForwardInputs& inputs);
  const void* position_row(int64_t row) const;  // of the learned position table, or null
  float* position_bias(size_t layer) const;     // with DecoderSpec::relative_bias, else null
  void rope_step(const ForwardInputs& inputs);
  void mixer_input(const ForwardInputs& inputs, size_t layer);
  void qkv_block(const ForwardInputs& inputs, size_t layer, ConstActivations x);
  void latent_block(const ForwardInputs& inputs, size_t layer, ConstActivations x);
  void attend(const ForwardInputs& inputs, size_t layer);
  // The gate and scale of the heads' outputs.
  void gate_heads(const AttentionSpec& attention, int64_t num_tokens);
  void output_block(size_t layer, int64_t num_tokens);
  void ffn_block(size_t layer, int64_t num_tokens);
  // The rest of a block before the layer's mixer with a state, and what that mixer reads.
  void shared_block(size_t layer, int64_t num_tokens);
  // What a layer adds and multiplies behind its MLP.
  void end_layer(const ForwardInputs& inputs, size_t layer);
  // out [T, E] += (or =) what the layer's experts and its MLP make of x.
  void run_ffn(size_t layer, ConstActivations x, Activations out, int64_t num_tokens,
               bool accumulate);
  // Whether the product by gate and up is activated as it is made.
  bool fuses_gate(const FfnSpec& ffn, const LayerWeights& weights) const;
  // The first half of the MLP, into `inside`, whose rows lie apart only if that is so.
  struct Columns {
    Activations data;
    int64_t stride;
  };
  void run_activated(size_t layer, ConstActivations x, const Columns& inside, int64_t num_tokens);
  // x [T, size] *= scale, with rows `stride` apart.
  void scale_columns(Activations x, int64_t stride, int64_t size, float scale, int64_t num_tokens);
  // What the MLP reads of `count` tokens from `begin` on, whose residual stream is `hidden`.
  ConstActivations mlp_input(const LayerWeights& weights, const float* hidden, int64_t begin,
                             int64_t count);
  int64_t norm_of(std::span<const int32_t> rows);  // into normed_; how many
  void run_norm(const NormWeights& norm, ConstActivations x, Activations out, int64_t num_tokens,
                const int32_t* rows = nullptr);
  // add_to [T, E] += block_out_, normed or scaled.
  void add_changed(const NormWeights& norm, float* add_to, int64_t num_tokens);
  void run_linear(const LinearWeights& weights, ConstActivations x, Activations y,
                  int64_t num_tokens, bool accumulate);
  // With rows of y so many elements apart.
  void run_linear(const LinearWeights& weights, ConstActivations x, const Columns& y,
                  int64_t num_tokens, bool accumulate);
  // out [T, E] += (or =) a product of which each rank computes some columns.
  void run_output(const LinearWeights& weights, ConstActivations x, Activations out,
                  int64_t num_tokens, bool accumulate);

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  DecoderLimits limits_;
  Stream& stream_;
  RankExchange* ranks_;
  std::vector<LayerCache> cache_;
  float* hidden_;          // [T, E]
  Activations normed_;     // [T, E]
  Activations block_out_;  // [T, E], with norms of outputs
  // With room for the widest layer:
  Activations qkv_;                // [T, (Hq + 2 Hkv) * D]
  Activations attention_;          // [T, Hq * D]
  Activations gate_up_;            // [mlp_tokens, 2 F] or [mlp_tokens, F]
  Activations ffn_;                // [mlp_tokens, F] of layers with a gate; others use gate_up_
  std::vector<float*> cos_, sin_;  // per rope [T, rotary_dim / 2]
  double* rope_scratch_;
  float* query_scale_;                   // [T], with DecoderSpec::query_scale
  float* position_bias_;                 // [tables, Hq, position_bias_stride()], likewise
  std::optional<LoraBatch> lora_;        // with adapters
  std::optional<ExpertsBlock> experts_;  // of models with experts
  std::optional<LatentBlock> latents_;   // of models with latent attention
  std::optional<LayerInputs> layer_inputs_;
  std::optional<ResidualStreams> streams_;
  std::optional<SharedBlocks> shared_;     // of models with blocks that layers share
  std::optional<DraftInput> draft_input_;  // of models that draft from hidden states
  std::optional<StateBlock> states_;       // of models with states
  std::vector<StateView> state_views_;     // per layer
  void* linear_workspace_;
  void* attention_workspace_;
  int64_t attention_workspace_bytes_;
  // How attention cut the batch, once per AttentionCutKind: layer i uses cut layer_cut_[i].
  std::vector<void*> cuts_;
  std::vector<bool> cut_done_;
  std::vector<size_t> layer_cut_;
};

}  // namespace quire
