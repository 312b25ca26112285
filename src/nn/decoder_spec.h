// What a transformer of one stack is made of, a decoder or an encoder, as plain data: the one
// forward pass (nn/decoder/decoder.h) reads it, models/ fills it from a configuration. Layers may differ in everything that LayerSpec
// holds. Shape letters: E hidden, F ffn, V vocabulary, Hq and Hkv heads, D head dim.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/api/activation.h"
#include "kernels/api/experts.h"
#include "kernels/api/kv_cache.h"
#include "kernels/api/router.h"
#include "nn/spec/cross_spec.h"
#include "nn/spec/draft_input_spec.h"
#include "nn/spec/index_spec.h"
#include "nn/spec/pooling_spec.h"
#include "nn/spec/relative_bias.h"
#include "nn/spec/rope.h"
#include "nn/spec/shared_block_spec.h"
#include "nn/spec/state_spec.h"
#include "nn/spec/streams_spec.h"

namespace quire {

enum class NormKind : uint8_t { kRms, kLayer };

// What the mixer A (attention, a state, or the sum of both) and the MLP M of a layer read and add
// to, with norms N and N' of their inputs. A layer may lack either, and its norm with it.
enum class ResidualStyle : uint8_t {
  kSequential,       // x += A(N(x)); x += M(N'(x))
  kParallel,         // x += A(N(x)) + M(N'(x))
  kParallelOneNorm,  // x += A(N(x)) + M(N(x))
  kNormOfSum,        // x = N(x + A(x)); x = N'(x + M(x)) (BERT); without other norms in layers
};

// How the layers of a model are put together.
struct BlockStyle {
  NormKind norm = NormKind::kRms;
  bool norm_bias = false;     // of kLayer norms
  bool input_norms = true;    // on what attention and MLP read
  bool output_norms = false;  // on what they add; RMSNorms alone
  // What they add is multiplied column by column (LayerScale of CaiT), or by the hyperbolic tangent
  // of one number each (Llama 3.2 Vision's tower). Both work on CPUs alone.
  bool output_scales = false;
  bool output_gates = false;
  bool embedding_norm = false;  // on the embedding, before the first layer
  bool final_norm = true;       // behind the last layer
  ResidualStyle residual = ResidualStyle::kSequential;

  bool changes_outputs() const { return output_norms || output_scales || output_gates; }
  // Norms of what attention and MLP add, or of the sums.
  bool norms_behind() const { return output_norms || residual == ResidualStyle::kNormOfSum; }
};

// This is multi-head latent attention (kernels/api/latent.h): the cache has one head of R + P for
// all heads.
struct LatentSpec {
  int32_t rank = 0;        // R, of the latent; 0: attention is not latent
  int32_t rope_dim = 0;    // P, of a head's query and of the key that all heads share
  int32_t nope_dim = 0;    // N, of a head's query, expanded from the latent in its keys
  int32_t value_dim = 0;   // V, of a head
  int32_t query_rank = 0;  // of the queries' own latent; 0: they are projected directly
  float norm_eps = 1e-6f;  // of the norms of both latents

  bool any() const { return rank > 0; }
  int64_t query_rows(int64_t num_heads) const { return num_heads * (nope_dim + rope_dim); }
  // Returns the rows of the first projection: queries or their latent, the latent, the rotated key.
  int64_t down_rows(int64_t num_heads) const {
    return (query_rank > 0 ? query_rank : query_rows(num_heads)) + rank + rope_dim;
  }
};

struct AttentionSpec {
  int32_t num_heads = 0;       // Hq; 0: the layer has no attention
  int32_t num_kv_heads = 0;    // Hkv
  int32_t head_dim = 0;        // D
  int32_t sliding_window = 0;  // tokens a query sees, itself included; 0: all
  // Sequences are cut into chunks of that many tokens instead, and a query sees those of its own.
  bool window_is_chunk = false;
  bool causal = true;     // else tokens see those behind them too, on CPUs alone
  bool sees_ends = true;  // ForwardInputs::seen_ends hold for the layer
  float scale = 1.0f;     // of scores
  float soft_cap = 0.0f;  // 0: none
  RopeStyle rope_style = RopeStyle::kNeox;
  int32_t rope_index = 0;              // into DecoderSpec::ropes; unused when rope_style is kNone
  std::optional<QkNorm> qk_norm = {};  // none: queries and keys have no norms
  bool qk_norm_after_rope = false;
  bool plain_qk_norm = false;  // of heads, without a weight
  float qk_norm_eps = 1e-6f;
  bool scales_queries = false;  // by DecoderSpec::query_scale
  bool value_norm = false;      // RMSNorm of each value head, without a weight
  float qkv_clip = 0.0f;        // queries, keys and values lie in [-clip, clip]; 0: anywhere
  // The layer before this one whose keys and values are read; -1: the layer has its own.
  int32_t kv_layer = -1;
  bool has_sinks = false;        // one more score per head, which takes weight and adds nothing
  bool has_output_gate = false;  // heads' outputs times sigmoid(gate(x))
  bool has_output_norm =
      false;                  // RMSNorm of what the output projection reads, of all heads together
  float output_scale = 1.0f;  // of what the output projection reads
  bool qkv_bias = false;
  bool o_bias = false;
  LatentSpec latent = {};  // any(): with one KV head, of the cache's width
  IndexSpec index = {};    // with `latent`: which of the tokens are attended to
  // Queries, keys and values are made of twice the hidden size (DraftInputSpec::is_beside,
  // SharedBlockSpec).
  bool reads_pairs = false;

  bool any() const { return num_heads > 0; }
  bool has_own_kv() const { return kv_layer < 0; }

  int64_t q_rows() const { return int64_t{num_heads} * head_dim; }
  // Returns the columns of the output projection.
  int64_t output_size() const {
    return latent.any() ? int64_t{num_heads} * latent.value_dim : q_rows();
  }
  int64_t kv_rows() const { return int64_t{num_kv_heads} * head_dim; }
  // Rows of the input projection: queries, keys, values, and the gate; what comes first of latent
  // attention.
  int64_t qkv_rows() const {
    if (latent.any()) return latent.down_rows(num_heads);
    return q_rows() * (has_output_gate ? 2 : 1) + (has_own_kv() ? 2 * kv_rows() : 0);
  }
};

// These are routed experts (kernels/api/router.h, kernels/api/experts.h).
struct ExpertsSpec {
  RouterSpec router;              // num_experts 0: there are none
  int64_t intermediate_size = 0;  // of one expert
  ExpertActivation activation;
  bool gated = true;
  bool bias = false;         // of the experts' projections
  bool router_bias = false;  // on the logits
  bool has_correction = false;
  bool has_shared_router = false;  // the MLP beside them times sigmoid(shared_router(x))
  bool has_scale = false;          // every expert's weight times a number of its own
  // Router and experts read the residual stream through norms of their own, and so are their output
  // and that of the MLP beside them normed before they are added (Gemma 4).
  bool own_norms = false;
  // The router gives a logit, and a token's one expert reads the token times its sigmoid (Llama 4).
  bool weighs_inputs = false;

  bool any() const { return router.num_experts > 0; }
};

// A layer has an MLP, routed experts, or both side by side, whose outputs are added.
struct FfnSpec {
  int64_t intermediate_size = 0;  // F of the MLP; 0: there is none
  Activation activation = Activation::kSilu;
  bool gated = true;        // down(act(gate(x)) * up(x)), otherwise down(act(up(x)))
  bool bias = false;        // of all its projections
  float gate_scale = 1.0f;  // of gate(x), before the activation
  // Of gate(x) remains what lies so many standard deviations above its mean, and how far it does
  // (kernels/api/streams/residual_streams.h: cut_below). CPUs alone.
  std::optional<float> gate_cut = {};
  float inner_scale = 1.0f;      // of what the down projection reads
  bool has_inner_norm = false;   // RMSNorm of the same, which is not of routed experts
  bool has_output_norm = false;  // RMSNorm of what all adds, in a block without such norms

  ExpertsSpec experts;

  bool any() const { return intermediate_size > 0 || experts.any(); }

  // Rows of the input projection.
  int64_t gate_up_rows() const { return intermediate_size * (gated ? 2 : 1); }
};

struct LayerSpec {
  AttentionSpec attention;
  StateSpec state;
  FfnSpec ffn;
  SharedBlockSpec shared;      // any(): attention and MLP come before the state
  bool reads_source = false;   // with DecoderSpec::cross
  bool has_input_norm = true;  // of its mixer, in a block with input norms

  bool has_mixer() const { return attention.any() || state.any(); }
  bool any() const { return has_mixer() || ffn.any(); }
  // Says whether the layer has one in a block of this style.
  bool has_mlp_norm(const BlockStyle& block) const {
    return block.input_norms && block.residual != ResidualStyle::kParallelOneNorm && ffn.any();
  }
  int64_t num_norms(const BlockStyle& block) const {
    const int64_t parts = (has_mixer() ? 1 : 0) + (ffn.any() ? 1 : 0);
    return (block.input_norms && has_mixer() && has_input_norm ? 1 : 0) +
           (has_mlp_norm(block) ? 1 : 0) + (block.norms_behind() ? parts : 0) +
           (ffn.has_output_norm ? 1 : 0);
  }
};

// Inputs that every layer has of its own, P wide: a row of a table by the token, and a projection of
// the token's embedding. Behind its MLP a layer adds norm(up(act(gate(x)) * input)) (Gemma 4).
struct LayerInputSpec {
  int64_t size = 0;        // P; 0: there are none
  int64_t vocab_size = 0;  // rows of the table; tokens behind them take row 0
  int64_t given_row = 0;   // of rows whose embeddings are given (GivenRows), a picture's
  Activation activation = Activation::kGeluTanh;

  bool any() const { return size > 0; }
  int64_t num_parameters(int64_t hidden_size, int64_t num_layers) const {
    if (!any()) return 0;
    const int64_t layer = size * (vocab_size + 3 * hidden_size) + hidden_size;
    return num_layers * layer + size;
  }
};

struct DecoderSpec {
  int64_t vocab_size = 0;   // V
  int64_t hidden_size = 0;  // E
  std::vector<LayerSpec> layers;
  std::vector<RopeSpec> ropes;
  int64_t num_positions = 0;        // rows of the learned position table; 0: none
  int64_t first_position_row = 0;   // of the table: rows before it are for padding (OPT)
  int64_t num_token_types = 0;      // rows of the table of token types; 0: none
  std::vector<float> alibi_slopes;  // [Hq] of every layer, or empty (kernels/api/attention.h)
  RelativeBiasSpec relative_bias;   // on CPUs alone
  std::optional<QueryScale> query_scale;

  BlockStyle block;
  LayerInputSpec layer_inputs;
  StreamsSpec streams;
  bool layer_scale = false;  // the residual stream behind each layer times a number of the layer
  // What the matrices of layers read and make is held between bounds, which each matrix has of its
  // own (Gemma 4's tower). CPUs alone.
  bool clamps_products = false;
  float norm_eps = 1e-6f;

  float embedding_scale = 1.0f;
  float logit_scale = 1.0f;     // folded into the final norm when weights are loaded
  float final_soft_cap = 0.0f;  // of logits; 0: none
  bool has_head = true;         // else no logits come of it
  bool tied_head = false;       // the head reads the token embedding
  int64_t unsaid_tokens = 0;  // the last of the vocabulary, which are read alone: the head has none
  bool head_bias = false;
  bool logit_bias = false;  // the same in a tensor that is named apart from the head (BART)

  PoolingSpec pooling;
  CrossSpec cross;  // between the attention and the MLP of layers that read a source

  // Of a decoder that drafts for another one.
  DraftInputSpec draft_input;
  int64_t head_size = 0;  // rows of its head, where it knows some tokens alone; 0: vocab_size
  int64_t num_logits() const { return head_size > 0 ? head_size : vocab_size; }

  int64_t num_parameters() const;
  // Counts those of one layer by itself.
  int64_t num_layer_parameters(size_t index) const;
  bool has_experts() const;
  bool has_states() const;
  bool has_latents() const;
  bool has_indexers() const;
  bool has_shared_blocks() const;
  // Whether tokens see those behind them: a prompt is computed in one step.
  bool is_bidirectional() const { return !layers.empty() && !layers.front().attention.causal; }
};

}  // namespace quire
