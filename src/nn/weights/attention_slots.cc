// The slots of attention, of latent attention and of cross-attention.
#include <optional>
#include <utility>
#include <vector>

#include "nn/rank_share.h"
#include "nn/weights/decoder_slots.h"

namespace quire {
namespace {

void add_heads(WeightSlots& slots, const DecoderSpec& spec, int32_t index, LayerWeights& layer) {
  const AttentionSpec& attention = spec.layers[static_cast<size_t>(index)].attention;
  const size_t first = slots.count();
  std::vector<SlotPart> parts = {{TensorRole::kQ, attention.q_rows()}};
  std::optional<TensorRole> fused;
  if (attention.has_own_kv()) {
    parts.push_back({TensorRole::kK, attention.kv_rows()});
    parts.push_back({TensorRole::kV, attention.kv_rows()});
    fused = TensorRole::kQkv;
  }
  if (attention.has_output_gate) parts.push_back({TensorRole::kQueryGate, attention.q_rows()});
  const int64_t columns = spec.hidden_size * (attention.reads_pairs ? 2 : 1);
  slots.add_matrix(index, std::move(parts), fused, columns, layer.qkv, attention.qkv_bias);
  for (WeightSlot& slot : slots.from(first)) slot.row_groups = attention.num_heads;
  const HeadShare share = share_of(attention, slots.options().share);
  slots.keep(first, share.qkv_rows(attention));
  if (attention.qk_norm && !attention.plain_qk_norm) {
    const bool has_bias = *attention.qk_norm == QkNorm::kBiasedHead;
    const bool shared = *attention.qk_norm == QkNorm::kHead || has_bias;
    const int64_t q_rows = shared ? attention.head_dim : attention.q_rows();
    const int64_t k_rows = shared ? attention.head_dim : attention.kv_rows();
    slots.add_vector(index, {TensorRole::kQNorm, q_rows}, layer.q_norm);
    if (has_bias) {
      slots.add_vector(index, {TensorRole::kQNorm, q_rows}, layer.q_norm_bias, true);
      slots.add_vector(index, {TensorRole::kKNorm, k_rows}, layer.k_norm_bias, true);
    }
    if (*attention.qk_norm == QkNorm::kLayerHead)
      slots.keep(slots.count() - 1, {share.q_rows(attention)});
    if (attention.has_own_kv()) {
      slots.add_vector(index, {TensorRole::kKNorm, k_rows}, layer.k_norm);
      if (*attention.qk_norm == QkNorm::kLayerHead)
        slots.keep(slots.count() - 1, {share.k_rows(attention)});
    }
  }
  for (WeightSlot& slot : slots.from(first)) slot.head_rows = attention.head_dim;
  if (spec.clamps_products) {
    std::vector<TensorRole> bounds = {TensorRole::kQBounds, TensorRole::kKBounds,
                                      TensorRole::kVBounds};
    if (!attention.has_own_kv()) bounds.resize(1);
    add_bound_slots(slots, index, first, bounds, layer.qkv);
  }
  if (attention.has_sinks) {
    slots.add_vector(index, {TensorRole::kSinks, attention.num_heads}, layer.sinks);
    slots.keep(slots.count() - 1, {share.heads});
  }
}

void add_latent_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t index,
                      LatentWeights& weights) {
  const AttentionSpec& attention = spec.layers[static_cast<size_t>(index)].attention;
  const LatentSpec& latent = attention.latent;
  const int64_t query_rows = latent.query_rows(attention.num_heads);
  const SlotPart query = latent.query_rank > 0 ? SlotPart{TensorRole::kQueryDown, latent.query_rank}
                                               : SlotPart{TensorRole::kQ, query_rows};
  slots.add_matrix(index, {query, {TensorRole::kLatentDown, latent.rank + latent.rope_dim}},
                   std::nullopt, spec.hidden_size, weights.down, attention.qkv_bias);
  if (latent.query_rank > 0) {
    slots.add_vector(index, {TensorRole::kQueryDownNorm, latent.query_rank}, weights.query_norm);
    slots.add_matrix(index, {TensorRole::kQueryUp, query_rows}, latent.query_rank,
                     weights.query_up);
  }
  slots.add_vector(index, {TensorRole::kLatentNorm, latent.rank}, weights.norm);
  const auto heads = static_cast<size_t>(attention.num_heads);
  weights.key_up.resize(heads);
  weights.value_up.resize(heads);
  for (size_t head = 0; head < heads; ++head) {
    const auto add = [&](SlotPart part, int64_t columns, LinearWeights& out) {
      slots.add_matrix(index, part, columns, out);
      slots.last().expert = static_cast<int32_t>(head);
      out.weight.parts.front().spec = {.n = part.rows,
                                       .k = columns,
                                       .dtype = slots.options().dtype,
                                       .compute = slots.options().compute};
    };
    add({TensorRole::kLatentKeyUp, latent.rank}, latent.nope_dim, weights.key_up[head]);
    add({TensorRole::kLatentValueUp, latent.value_dim}, latent.rank, weights.value_up[head]);
  }
}

void add_index_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t index,
                     IndexWeights& weights) {
  const AttentionSpec& attention = spec.layers[static_cast<size_t>(index)].attention;
  const IndexSpec& indexer = attention.index;
  if (!indexer.chooses()) return;
  slots.add_matrix(index, {TensorRole::kIndexQuery, int64_t{indexer.num_heads} * indexer.head_dim},
                   attention.latent.query_rank, weights.query);
  slots.add_matrix(index, {TensorRole::kIndexKey, indexer.head_dim}, spec.hidden_size, weights.key);
  const SlotPart norm{TensorRole::kIndexKeyNorm, indexer.head_dim};
  slots.add_vector(index, norm, weights.key_norm);
  slots.add_vector(index, norm, weights.key_shift, true);
  slots.add_exact_matrix(index, {TensorRole::kIndexHeadWeights, indexer.num_heads},
                         spec.hidden_size, weights.head_weights, false);
}

}  // namespace

void add_attention_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t index,
                         LayerWeights& layer) {
  const AttentionSpec& attention = spec.layers[static_cast<size_t>(index)].attention;
  if (attention.latent.any()) {
    add_latent_slots(slots, spec, index, layer.latent);
    add_index_slots(slots, spec, index, layer.index);
  } else {
    add_heads(slots, spec, index, layer);
  }
  if (attention.has_output_norm)
    slots.add_vector(index, {TensorRole::kHeadsNorm, attention.output_size()}, layer.heads_norm);
  const size_t output = slots.count();
  slots.add_matrix(index, {TensorRole::kO, spec.hidden_size}, attention.output_size(), layer.o,
                   attention.o_bias);
  slots.keep(output, {slots.options().share.outputs(spec.hidden_size)});
  if (spec.clamps_products) add_bound_slots(slots, index, output, {TensorRole::kOBounds}, layer.o);
}

void add_cross_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t index,
                     CrossWeights& weights) {
  const CrossSpec& cross = spec.cross;
  add_norm_slots(slots, spec, index, TensorRole::kCrossNorm, weights.norm);
  slots.add_matrix(index, {TensorRole::kCrossQ, cross.rows()}, spec.hidden_size, weights.q,
                   cross.bias);
  slots.add_matrix(index,
                   {{TensorRole::kCrossK, cross.kv_rows()}, {TensorRole::kCrossV, cross.kv_rows()}},
                   std::nullopt, cross.source_size, weights.kv, cross.bias);
  slots.add_matrix(index, {TensorRole::kCrossO, spec.hidden_size}, cross.rows(), weights.o,
                   cross.bias);
  if (cross.qk_norm) {
    slots.add_vector(index, {TensorRole::kCrossQNorm, cross.head_dim}, weights.q_norm);
    slots.add_vector(index, {TensorRole::kCrossKNorm, cross.head_dim}, weights.k_norm);
  }
  if (!cross.gated) return;
  slots.add_vector(index, {TensorRole::kCrossGate, 1}, weights.gate);
  slots.add_vector(index, {TensorRole::kCrossMlpGate, 1}, weights.mlp_gate);
}

}  // namespace quire
