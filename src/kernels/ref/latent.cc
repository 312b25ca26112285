#include <cmath>

#include "kernels/ref/ref.h"

namespace quire::ref {
namespace {

// Rotates x [P] by the token's angles, and writes it to `out`, which may be x.
void rotate(const LatentToCacheParams& p, int64_t token, const float* x, float* out) {
  const int64_t half = (p.kv.head_dim - p.kv.latent_dim) / 2;
  for (int64_t i = 0; i < half; ++i) {
    const int64_t first = p.rope_style == RopeStyle::kNeox ? i : 2 * i;
    const int64_t second = p.rope_style == RopeStyle::kNeox ? i + half : 2 * i + 1;
    const bool turns = p.rope_style != RopeStyle::kNone;
    const double c = turns ? p.cos[token * half + i] : 1.0;
    const double s = turns ? p.sin[token * half + i] : 0.0;
    const double a = x[first];
    const double b = x[second];
    out[first] = static_cast<float>(a * c - b * s);
    out[second] = static_cast<float>(b * c + a * s);
  }
}

}  // namespace

void latent_to_cache(const LatentToCacheParams& p) {
  const KvCacheView& kv = p.kv;
  const int64_t rank = kv.latent_dim;
  const int64_t query_dim = p.nope_dim + kv.head_dim - rank;
  for (int64_t t = 0; t < p.num_tokens; ++t) {
    float* latent = p.latent + t * p.latent_stride;
    double sum = 0.0;
    for (int64_t i = 0; i < rank; ++i) sum += double{latent[i]} * latent[i];
    const double factor = 1.0 / std::sqrt(sum / static_cast<double>(rank) + p.norm_eps);
    for (int64_t i = 0; i < rank; ++i)
      latent[i] = static_cast<float>(latent[i] * factor * p.norm_weight[i]);
    rotate(p, t, latent + rank, latent + rank);
    for (int64_t h = 0; h < p.num_heads; ++h) {
      rotate(p, t, p.query + t * p.query_stride + h * query_dim + p.nope_dim,
             p.absorbed + (t * p.num_heads + h) * kv.head_dim + rank);
    }
    const int64_t slot = p.slot_mapping[t];
    store_key(kv, slot / kv.block_size, 0, slot % kv.block_size, latent);
  }
}

}  // namespace quire::ref
