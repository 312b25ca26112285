#include "models/families/latent/latent_fields.h"

#include "models/config_reader.h"
#include "models/model_config.h"

namespace quire {

void read_latent(const ConfigReader& reader, const LatentSpec& defaults, ModelConfig& config) {
  constexpr IntRange kDim{1, 4096};
  constexpr int32_t kRankUnit = 16;  // columns that kernels process at once
  const auto dim = [&](std::string_view key, IntRange range, std::optional<int64_t> otherwise) {
    return static_cast<int32_t>(reader.integer(key, range, otherwise));
  };
  LatentSpec& latent = config.latent;
  latent.rank = dim("kv_lora_rank", {kRankUnit, kMaxAttentionHeadDim}, defaults.rank);
  latent.rope_dim = dim("qk_rope_head_dim", {2, kMaxAttentionHeadDim}, defaults.rope_dim);
  latent.nope_dim = dim("qk_nope_head_dim", kDim, defaults.nope_dim);
  latent.value_dim = dim("v_head_dim", kDim, defaults.value_dim);
  // null means that queries are projected directly.
  latent.query_rank =
      reader.is_null("q_lora_rank") ? 0 : dim("q_lora_rank", {1, 1 << 20}, defaults.query_rank);
  if (latent.rank % kRankUnit != 0) {
    reader.fail(
        fmt::format("kv_lora_rank: expected a multiple of {}, got {}", kRankUnit, latent.rank));
  }
  if (latent.rope_dim % 2 != 0 || latent.rank + latent.rope_dim > kMaxAttentionHeadDim) {
    reader.fail(fmt::format(
        "kv_lora_rank + qk_rope_head_dim: expected even numbers of at most {} in all, got {} + {}",
        kMaxAttentionHeadDim, latent.rank, latent.rope_dim));
  }
  const int64_t widest =
      config.num_attention_heads *
      std::max<int64_t>(latent.rank + latent.rope_dim,
                        std::max(latent.nope_dim + latent.rope_dim, latent.value_dim));
  if (widest > 1 << 20) {
    reader.fail(fmt::format("num_attention_heads: expected heads of at most {} in all, got {}",
                            1 << 20, widest));
  }
  if (config.qkv_bias && latent.query_rank == 0)
    reader.fail("attention_bias: expected false without q_lora_rank, got true");
  config.head_dim = latent.rope_dim;
}

}  // namespace quire
