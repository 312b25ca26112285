// CacheScales are the ranges of keys and values that a checkpoint was calibrated to, for an fp8 KV
// cache.
//
//   model.layers.3.self_attn.k_scale       also k_proj.k_scale, attn.k_scale, qkv_proj.k_scale, …
//   model.layers.3.self_attn.v_scale
//   model.layers.3.self_attn.kv_scale      in older files: of both, if neither of the above exists
//
// Each scale is one number, or one number per KV head. The cache stores a value divided by its
// scale.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "weights/files/tensor_source.h"
#include "weights/names/name_map.h"

namespace quire {

struct CacheScales {
  std::vector<float> key;    // by layer, then KV head; 1 where the checkpoint has no scale
  std::vector<float> value;  // in the same order
  int32_t num_layers_without_scale = 0;  // layers without a scale of the keys or of the values
};

// Returns whether a tensor's name is that of a scale of keys, values or queries. Queries are not
// quantized, so their scales are never read.
bool is_cache_scale(std::string_view name);

// Returns kInvalidArgument if a scale is not a positive number (or too small to divide by), has
// neither one element nor one per KV head, belongs to no layer of the model, or contradicts another
// scale. `num_kv_heads` has one element per layer.
Result<CacheScales> read_cache_scales(const NameMap& names, const TensorSource& source,
                                      std::span<const int32_t> num_kv_heads);

}  // namespace quire
