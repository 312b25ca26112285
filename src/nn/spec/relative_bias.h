// RelativeBiasSpec describes biases of attention scores by how far a key stands from the query, in
// buckets that grow with the distance (T5; MPNet).
#pragma once

#include <cstdint>

namespace quire {

struct RelativeBiasSpec {
  int32_t num_buckets = 0;     // 0: there are none
  int32_t max_distance = 128;  // from which on all share the last bucket
  bool causal = false;     // no key stands behind the query; else half of the buckets are for those
  bool per_layer = false;  // layers have tables of their own (UMT5); else all have one

  bool any() const { return num_buckets > 0; }
  // Returns the bucket of a key `distance` positions behind the query, or before it where that is
  // below 0.
  int32_t bucket_of(int32_t distance) const;
};

// out [num_heads, position_bias_stride(max_distance)], as paged_attention() reads it, of the table
// [num_buckets, num_heads].
void expand_relative_bias(const RelativeBiasSpec& spec, const float* table, int32_t num_heads,
                          float* out);

}  // namespace quire
