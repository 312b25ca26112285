// CacheScales are the ranges of keys and values that a checkpoint was calibrated to, for an fp8 KV
// cache.
//
//   model.layers.3.self_attn.k_scale       also k_proj.k_scale, attn.k_scale, qkv_proj.k_scale, …
//   model.layers.3.self_attn.v_scale
//   model.layers.3.self_attn.kv_scale      older files: of both, where neither of the others is
//
// One number, or one per KV head. What is stored is the value divided by its scale.
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
  std::vector<float> key;         // the KV heads of all layers, 1 where the checkpoint says nothing
  std::vector<float> value;       // in the same order
  int32_t num_silent_layers = 0;  // without a scale of the keys or of the values
};

// Says by its name whether a tensor is a scale of keys, values or queries (these are not quantized,
// and theirs is never read).
bool is_cache_scale(std::string_view name);

// kInvalidArgument: a scale is not a positive number (or too small to divide by), has neither one
// element nor one per KV head, belongs to no layer of the model, or contradicts another.
// `num_kv_heads` has a number for each layer.
Result<CacheScales> read_cache_scales(const NameMap& names, const TensorSource& source,
                                      std::span<const int32_t> num_kv_heads);

}  // namespace quire
