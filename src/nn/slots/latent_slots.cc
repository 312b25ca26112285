// The slots through which a checkpoint fills latent attention.
#include "nn/decoder_weights.h"

namespace quire {

void DecoderWeights::add_latent(int32_t index) {
  const AttentionSpec& attention = spec_.layers[static_cast<size_t>(index)].attention;
  const LatentSpec& latent = attention.latent;
  LatentWeights& weights = layers_[static_cast<size_t>(index)].latent;
  const int64_t query_rows = latent.query_rows(attention.num_heads);
  const SlotPart query = latent.query_rank > 0 ? SlotPart{TensorRole::kQueryDown, latent.query_rank}
                                               : SlotPart{TensorRole::kQ, query_rows};
  add_matrix(index, {query, {TensorRole::kLatentDown, latent.rank + latent.rope_dim}}, std::nullopt,
             spec_.hidden_size, weights.down, attention.qkv_bias);
  if (latent.query_rank > 0) {
    add_vector(index, {{TensorRole::kQueryDownNorm, latent.query_rank}}, std::nullopt, false,
               weights.query_norm);
    add_matrix(index, {{TensorRole::kQueryUp, query_rows}}, std::nullopt, latent.query_rank,
               weights.query_up, false);
  }
  add_vector(index, {{TensorRole::kLatentNorm, latent.rank}}, std::nullopt, false, weights.norm);
  const auto heads = static_cast<size_t>(attention.num_heads);
  weights.key_up.resize(heads);
  weights.value_up.resize(heads);
  for (size_t head = 0; head < heads; ++head) {
    const auto add = [&](SlotPart part, int64_t columns, LinearWeights& out) {
      add_matrix(index, {part}, std::nullopt, columns, out, false);
      slots_.back().expert = static_cast<int32_t>(head);
      out.weight.parts.front().spec = {
          .n = part.rows, .k = columns, .dtype = options_.dtype, .compute = options_.compute};
    };
    add({TensorRole::kLatentKeyUp, latent.rank}, latent.nope_dim, weights.key_up[head]);
    add({TensorRole::kLatentValueUp, latent.value_dim}, latent.rank, weights.value_up[head]);
  }
}

}  // namespace quire
