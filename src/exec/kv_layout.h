// How a model's layers share the KV pool: groups of equal size (core/kv_spec.h), and where a layer
// lies in a block.
//
//   block b   |<-------------------------- block_bytes --------------------------->|
//             | part 0: K [Hkv, D, S] | V [Hkv, S, D] | part 1: K | V | … part g-1 |
//
// Layer layers[i] of the group that holds the block reads and writes part i.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "core/kv_spec.h"
#include "nn/decoder.h"
#include "nn/decoder_spec.h"

namespace quire {

struct KvLayout {
  KvSpec spec;
  DType dtype = DType::kBF16;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t parts_per_block = 0;  // layers in a group, the last group of a kind padded
  std::vector<int32_t> layer_group;
  std::vector<int32_t> layer_part;
  // Of an fp8 cache, [num_layers, Hkv], or empty for all 1. Views of layer_caches() point into
  // them.
  std::vector<float> key_scales;
  std::vector<float> value_scales;

  int64_t part_bytes() const { return spec.block_bytes / parts_per_block; }
  // Bytes of KV for one token over all layers, padding included.
  double bytes_per_token() const;
  // The cache of part `part` in a pool that starts at `pool`, as bytes to copy: without scales,
  // which are each layer's own.
  KvCacheView part_view(void* pool, int32_t part) const;
  std::vector<LayerCache> layer_caches(void* pool) const;  // one per layer; they borrow the scales
};

KvLayout make_kv_layout(const DecoderSpec& spec, int32_t block_size, DType dtype);

}  // namespace quire
