// The structure of a transformer, decoder or encoder, as plain data: models/ fills it from a
// configuration, and the one forward pass (nn/decoder/decoder.h) reads it. Layers may differ in
// everything that LayerSpec holds. Shape letters: E hidden, F ffn, V vocabulary, Hq and Hkv heads,
// D head dim.
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

// How the mixer A (attention, a state, or the sum of both) and the MLP M of a layer read the
// residual stream x and add to it. N and N' are the norms of their inputs. A layer without A or M
// lacks its norm, too.
enum class ResidualStyle : uint8_t {
  kSequential,       // x += A(N(x)); x += M(N'(x))
  kParallel,         // x += A(N(x)) + M(N'(x))
  kParallelOneNorm,  // x += A(N(x)) + M(N(x))
  kNormOfSum,        // x = N(x + A(x)); x = N'(x + M(x)) (BERT); the layer has no other norms
};

// The norms, scales and residual connections that all layers of a model have in common.
struct BlockStyle {
  NormKind norm = NormKind::kRms;
  bool norm_bias = false;     // of kLayer norms
  bool input_norms = true;    // on the inputs of attention and MLP
  bool output_norms = false;  // on their outputs; RMSNorms only
  // The outputs of attention and MLP are multiplied column by column (LayerScale of CaiT), or by
  // the hyperbolic tangent of one number each (Llama 3.2 Vision's tower). Both work on CPUs only.
  bool output_scales = false;
  bool output_gates = false;
  bool embedding_norm = false;  // on the embedding, before the first layer
  bool final_norm = true;       // behind the last layer
  ResidualStyle residual = ResidualStyle::kSequential;

  bool changes_outputs() const { return output_norms || output_scales || output_gates; }
  // Returns whether there are norms of the outputs of attention and MLP, or of the sums with them.
  bool norms_behind() const { return output_norms || residual == ResidualStyle::kNormOfSum; }
};

// Multi-head latent attention (kernels/api/latent.h): the cache stores one head of R + P numbers
// for all heads.
struct LatentSpec {
  int32_t rank = 0;  // R, of the latent; 0: attention is not latent
  // P, the rotated dims of a head's query and of the key that all heads share.
  int32_t rope_dim = 0;
  // N, the other dims of a head's query and key; those of keys are expanded from the latent.
  int32_t nope_dim = 0;
  int32_t value_dim = 0;   // V, the dims of a head's values
  int32_t query_rank = 0;  // of the queries' own latent; 0: queries are projected directly
  float norm_eps = 1e-6f;  // of the norms of both latents

  bool any() const { return rank > 0; }
  int64_t query_rows(int64_t num_heads) const { return num_heads * (nope_dim + rope_dim); }
  // Returns the rows of the first projection: queries or their latent, then the latent and the
  // rotated key.
  int64_t down_rows(int64_t num_heads) const {
    return (query_rank > 0 ? query_rank : query_rows(num_heads)) + rank + rope_dim;
  }
};

struct AttentionSpec {
  int32_t num_heads = 0;       // Hq; 0: the layer has no attention
  int32_t num_kv_heads = 0;    // Hkv
  int32_t head_dim = 0;        // D
  int32_t sliding_window = 0;  // tokens a query sees, itself included; 0: all
  // Instead of a window, sequences are cut into chunks of sliding_window tokens, and a query sees
  // those of its own chunk.
  bool window_is_chunk = false;
  bool causal = true;     // false: tokens also see those behind them; CPUs only
  bool sees_ends = true;  // whether ForwardInputs::seen_ends applies to the layer
  float scale = 1.0f;     // of scores
  float soft_cap = 0.0f;  // 0: none
  RopeStyle rope_style = RopeStyle::kNeox;
  int32_t rope_index = 0;              // into DecoderSpec::ropes; unused when rope_style is kNone
  std::optional<QkNorm> qk_norm = {};  // none: queries and keys have no norms
  bool qk_norm_after_rope = false;
  bool plain_qk_norm = false;  // RMSNorm of each head, without a weight
  float qk_norm_eps = 1e-6f;
  bool scales_queries = false;  // multiplies queries by DecoderSpec::query_scale
  bool value_norm = false;      // RMSNorm of each value head, without a weight
  float qkv_clip = 0.0f;        // clips queries, keys and values to [-clip, clip]; 0: does not
  // The index of an earlier layer whose keys and values this one reads; -1: it has its own.
  int32_t kv_layer = -1;
  // One more score per head, which takes part in the softmax and adds no value.
  bool has_sinks = false;
  bool has_output_gate = false;  // heads' outputs times sigmoid(gate(x))
  bool has_output_norm =
      false;                  // RMSNorm of the output projection's input, over all heads together
  float output_scale = 1.0f;  // factor on the output projection's input
  bool qkv_bias = false;
  bool o_bias = false;
  LatentSpec latent = {};  // any(): then there is one KV head, with the cache's width
  IndexSpec index = {};    // with `latent`: chooses the tokens that are attended to
  // Queries, keys and values are projected from pairs of rows, twice the hidden size
  // (DraftInputSpec::is_beside, SharedBlockSpec).
  bool reads_pairs = false;

  bool any() const { return num_heads > 0; }
  bool has_own_kv() const { return kv_layer < 0; }

  int64_t q_rows() const { return int64_t{num_heads} * head_dim; }
  // Returns the columns of the output projection.
  int64_t output_size() const {
    return latent.any() ? int64_t{num_heads} * latent.value_dim : q_rows();
  }
  int64_t kv_rows() const { return int64_t{num_kv_heads} * head_dim; }
  // Returns the rows of the input projection: queries, keys, values and the gate, or the first
  // projection of latent attention.
  int64_t qkv_rows() const {
    if (latent.any()) return latent.down_rows(num_heads);
    return q_rows() * (has_output_gate ? 2 : 1) + (has_own_kv() ? 2 * kv_rows() : 0);
  }
};

// Routed experts (kernels/api/router.h, kernels/api/experts.h).
struct ExpertsSpec {
  RouterSpec router;              // num_experts 0: there are none
  int64_t intermediate_size = 0;  // of one expert
  ExpertActivation activation;
  bool gated = true;
  bool bias = false;         // of the experts' projections
  bool router_bias = false;  // on the logits
  bool has_correction = false;
  // The output of the MLP beside them times sigmoid(shared_router(x)).
  bool has_shared_router = false;
  bool has_scale = false;  // a factor per expert on its weight
  // Router and experts read the residual stream through norms of their own, and their output and
  // that of the MLP beside them are normed before they are added (Gemma 4).
  bool own_norms = false;
  // A token has one expert, whose input is the token times the sigmoid of the router's logit (Llama
  // 4).
  bool weighs_inputs = false;

  bool any() const { return router.num_experts > 0; }
};

// A layer has an MLP, routed experts, or both side by side with added outputs.
struct FfnSpec {
  int64_t intermediate_size = 0;  // F of the MLP; 0: there is none
  Activation activation = Activation::kSilu;
  bool gated = true;        // down(act(gate(x)) * up(x)), otherwise down(act(up(x)))
  bool bias = false;        // of all its projections
  float gate_scale = 1.0f;  // factor on gate(x), before the activation
  // gate(x) becomes the amount by which it exceeds its mean by more than this many standard
  // deviations, and 0 elsewhere (kernels/api/streams/residual_streams.h: cut_below). CPUs only.
  std::optional<float> gate_cut = {};
  float inner_scale = 1.0f;     // factor on the down projection's input
  bool has_inner_norm = false;  // RMSNorm of the down projection's input; not for routed experts
  // RMSNorm of the sum of all outputs, in a block without output norms.
  bool has_output_norm = false;

  ExpertsSpec experts;

  bool any() const { return intermediate_size > 0 || experts.any(); }

  // Returns the rows of the input projection.
  int64_t gate_up_rows() const { return intermediate_size * (gated ? 2 : 1); }
};

struct LayerSpec {
  AttentionSpec attention;
  StateSpec state;
  FfnSpec ffn;
  SharedBlockSpec shared;      // any(): a block of attention and MLP precedes the state's mixer
  bool reads_source = false;   // cross-attention, see DecoderSpec::cross
  bool has_input_norm = true;  // on its mixer's input, in a block with input norms

  bool has_mixer() const { return attention.any() || state.any(); }
  bool any() const { return has_mixer() || ffn.any(); }
  // Returns whether the layer has a norm of the MLP's input in a block of this style.
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

// Inputs that each layer has of its own, P wide, from a table's row for the token and a projection
// of the token's embedding. After its MLP, a layer adds norm(up(act(gate(x)) * input)) (Gemma 4).
struct LayerInputSpec {
  int64_t size = 0;        // P; 0: there are none
  int64_t vocab_size = 0;  // rows of the table; tokens beyond them use row 0
  int64_t given_row = 0;   // the table's row for given embeddings (GivenRows), e.g. of a picture
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
  int64_t num_positions = 0;        // rows of the learned position table; 0: there is none
  int64_t first_position_row = 0;   // the row of position 0; rows before it are for padding (OPT)
  int64_t num_token_types = 0;      // rows of the table of token types; 0: there is none
  std::vector<float> alibi_slopes;  // [Hq] of every layer, or empty (kernels/api/attention.h)
  RelativeBiasSpec relative_bias;   // CPUs only
  std::optional<QueryScale> query_scale;

  BlockStyle block;
  LayerInputSpec layer_inputs;
  StreamsSpec streams;
  bool layer_scale = false;  // the residual stream behind each layer is multiplied by a number
  // Inputs and outputs of the layers' matrices are clipped to bounds that each matrix has of its
  // own (Gemma 4's tower). CPUs only.
  bool clamps_products = false;
  float norm_eps = 1e-6f;

  float embedding_scale = 1.0f;
  float logit_scale = 1.0f;     // folded into the final norm when weights are loaded
  float final_soft_cap = 0.0f;  // of logits; 0: none
  bool has_head = true;         // false: the model computes no logits
  bool tied_head = false;       // the head reads the token embedding
  // The last tokens of the vocabulary, which are input only: the head has no rows for them.
  int64_t unsaid_tokens = 0;
  bool head_bias = false;
  bool logit_bias = false;  // a bias of the logits, in a tensor named apart from the head (BART)

  PoolingSpec pooling;
  // Cross-attention, between the attention and the MLP of layers that read a source.
  CrossSpec cross;

  // For a draft model.
  DraftInputSpec draft_input;
  int64_t head_size = 0;  // rows of a reduced head, which covers only some tokens; 0: vocab_size
  int64_t num_logits() const { return head_size > 0 ? head_size : vocab_size; }

  int64_t num_parameters() const;
  // Counts the parameters of one layer.
  int64_t num_layer_parameters(size_t index) const;
  bool has_experts() const;
  bool has_states() const;
  bool has_latents() const;
  bool has_indexers() const;
  bool has_shared_blocks() const;
  // Returns whether tokens also see those behind them, so that a prompt must be computed in one
  // step.
  bool is_bidirectional() const { return !layers.empty() && !layers.front().attention.causal; }
};

}  // namespace quire
