// RelativeBiasSpec describes biases of attention scores that depend on the distance of key and
// query, in buckets that grow with the distance (T5; MPNet).
#pragma once

#include <cstdint>

namespace quire {

struct RelativeBiasSpec {
  int32_t num_buckets = 0;     // 0: no biases
  int32_t max_distance = 128;  // all greater distances share the last bucket
  // Whether keys are never behind the query; otherwise half of the buckets are for such keys.
  bool causal = false;
  bool per_layer = false;  // each layer has a table of its own (UMT5); otherwise all share one

  bool any() const { return num_buckets > 0; }
  // Returns the bucket of a key that is `distance` positions behind the query; negative: before it.
  int32_t bucket_of(int32_t distance) const;
};

// Expands a table [num_buckets, num_heads] to out [num_heads, position_bias_stride(max_distance)],
// which paged_attention() reads.
void expand_relative_bias(const RelativeBiasSpec& spec, const float* table, int32_t num_heads,
                          float* out);

}  // namespace quire
