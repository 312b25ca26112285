#include "nn/decoder_spec.h"

#include <algorithm>
#include <iterator>

#include "nn/own_weights.h"

namespace quire {
namespace {

// Counts all experts of a layer, with their routers, norms and scales.
int64_t num_expert_parameters(const ExpertsSpec& experts, int64_t hidden_size) {
  if (!experts.any()) return 0;
  const int64_t rows = experts.intermediate_size * (experts.gated ? 2 : 1);
  int64_t expert = hidden_size * (rows + experts.intermediate_size);
  if (experts.bias) expert += rows + hidden_size;
  const int64_t router =
      hidden_size + (experts.router_bias ? 1 : 0) + (experts.has_correction ? 1 : 0);
  return experts.router.num_experts * (expert + router + (experts.has_scale ? 1 : 0)) +
         hidden_size * ((experts.has_shared_router ? 1 : 0) + (experts.own_norms ? 4 : 0));
}

// Counts latent attention, except for its projections from and to the hidden state.
int64_t num_latent_parameters(const AttentionSpec& attention) {
  const LatentSpec& latent = attention.latent;
  if (!latent.any()) return 0;
  int64_t sum = latent.rank *
                (1 + int64_t{attention.num_heads} * (int64_t{latent.nope_dim} + latent.value_dim));
  if (latent.query_rank > 0)
    sum += latent.query_rank * (1 + latent.query_rows(attention.num_heads));
  return sum;
}

// Counts an indexer; the norm of its keys has a bias.
int64_t num_index_parameters(const AttentionSpec& attention, int64_t hidden_size) {
  const IndexSpec& index = attention.index;
  if (!index.chooses()) return 0;
  return index.num_heads * (int64_t{attention.latent.query_rank} * index.head_dim + hidden_size) +
         index.head_dim * (hidden_size + 2);
}

// Counts a block that layers share, except for its attention and MLP.
int64_t num_shared_parameters(const LayerSpec& layer, int32_t index, int64_t hidden_size) {
  const SharedBlockSpec& shared = layer.shared;
  if (!shared.any()) return 0;
  int64_t sum = hidden_size * hidden_size + (shared.weights_layer == index ? 2 * hidden_size : 0);
  sum += shared.update_rank * (hidden_size + layer.ffn.gate_up_rows());
  if (shared.updates_attention)
    sum += shared.update_rank * (6 * hidden_size + layer.attention.qkv_rows());
  return sum;
}

// `width` is the hidden size of the decoder.
int64_t num_draft_input_parameters(const DraftInputSpec& input, int64_t width) {
  if (!input.any()) return 0;
  const int64_t norms = input.has_norms ? width + (input.is_beside ? width : input.hidden_size) : 0;
  return width * (input.hidden_size + (input.is_beside ? 0 : width) + (input.has_bias ? 1 : 0)) +
         norms;
}

template <typename Predicate>
bool any_layer(const DecoderSpec& spec, const Predicate& predicate) {
  return std::any_of(spec.layers.begin(), spec.layers.end(), predicate);
}

}  // namespace

int64_t DecoderSpec::num_parameters() const {
  const int64_t norm = hidden_size * (block.norm_bias ? 2 : 1);
  int64_t sum =
      (vocab_size + (tied_head || !has_head ? 0 : num_logits() - unsaid_tokens)) * hidden_size +
      num_draft_input_parameters(draft_input, hidden_size) +
      (num_positions + num_token_types) * hidden_size + (block.final_norm ? norm : 0);
  for (const PoolingLayerSpec& layer : pooling.layers) {
    sum += layer.num_outputs * (layer.num_inputs + (layer.bias ? 1 : 0) + (layer.norm ? 1 : 0));
    if (layer.input_norm) sum += layer.num_inputs * (layer.input_norm->is_rms ? 1 : 2);
  }
  sum += (block.embedding_norm ? norm : 0) + (head_bias || logit_bias ? vocab_size : 0);
  if (relative_bias.any()) {
    sum += int64_t{relative_bias.num_buckets} * layers.front().attention.num_heads *
           (relative_bias.per_layer ? std::ssize(layers) : 1);
  }
  const auto num_layers = static_cast<int64_t>(layers.size());
  if (block.output_scales) sum += 2 * num_layers * hidden_size;
  sum += layer_inputs.num_parameters(hidden_size, num_layers) + (layer_scale ? num_layers : 0);
  sum += streams.num_parameters(hidden_size, num_layers);
  for (size_t i = 0; i < layers.size(); ++i) sum += num_layer_parameters(i);
  return sum;
}

int64_t DecoderSpec::num_layer_parameters(size_t index) const {
  const int64_t norm = hidden_size * (block.norm_bias ? 2 : 1);
  const LayerSpec layer = with_own_weights(layers[index], static_cast<int32_t>(index));
  const AttentionSpec& attention = layer.attention;
  const FfnSpec& ffn = layer.ffn;
  int64_t sum = num_shared_parameters(layers[index], static_cast<int32_t>(index), hidden_size);
  sum += layer.num_norms(block) * norm + layer.state.num_parameters(hidden_size);
  sum += hidden_size *
         (attention.qkv_rows() * (attention.reads_pairs ? 2 : 1) + attention.output_size());
  sum += num_latent_parameters(attention) + num_index_parameters(attention, hidden_size);
  if (layers[index].reads_source) sum += cross.num_parameters(hidden_size) + norm;
  sum += attention.qkv_bias ? attention.qkv_rows() : 0;
  sum += attention.o_bias && attention.any() ? hidden_size : 0;
  if (attention.qk_norm && !attention.plain_qk_norm && attention.any()) {
    const bool has_bias = *attention.qk_norm == QkNorm::kBiasedHead;
    const int64_t shared = *attention.qk_norm == QkNorm::kHead ? attention.head_dim
                           : has_bias                          ? 2 * attention.head_dim
                                                               : 0;
    sum += shared > 0 ? shared : attention.q_rows();
    if (attention.has_own_kv()) sum += shared > 0 ? shared : attention.kv_rows();
  }
  if (attention.has_output_norm) sum += attention.output_size();
  if (ffn.has_inner_norm) sum += ffn.intermediate_size;
  sum += hidden_size * (ffn.gate_up_rows() + ffn.intermediate_size);
  if (ffn.bias && ffn.intermediate_size > 0) sum += ffn.gate_up_rows() + hidden_size;
  sum += num_expert_parameters(ffn.experts, hidden_size);
  if (attention.has_sinks) sum += attention.num_heads;
  if (ffn.activation == Activation::kXielu) sum += 2;
  return sum;
}

bool DecoderSpec::has_experts() const {
  return any_layer(*this, [](const LayerSpec& layer) { return layer.ffn.experts.any(); });
}

bool DecoderSpec::has_states() const {
  return any_layer(*this, [](const LayerSpec& layer) { return layer.state.any(); });
}

bool DecoderSpec::has_latents() const {
  return any_layer(*this, [](const LayerSpec& layer) { return layer.attention.latent.any(); });
}

bool DecoderSpec::has_indexers() const {
  return any_layer(*this, [](const LayerSpec& layer) { return layer.attention.index.any(); });
}

bool DecoderSpec::has_shared_blocks() const {
  return any_layer(*this, [](const LayerSpec& layer) { return layer.shared.any(); });
}

}  // namespace quire
