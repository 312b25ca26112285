// A KV pool laid out as in an engine, for measurements: all layers of a block are adjacent (as in
// exec/kv_layout.h), and a sequence's blocks are scattered over the pool.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/api/kv_cache.h"
#include "kernels/bench/bench_memory.h"
#include "kernels/bench/cases.h"

namespace quire::bench {

// A sequence longer than the pool uses blocks again, long after they have left the caches.
inline constexpr int64_t kKvPoolBytes = int64_t{1} << 30;

struct KvPool {
  KvCacheView view;  // of the first layer
  int64_t layer_bytes = 0;
  int32_t num_layers = 0;
  int32_t num_blocks = 0;

  // Returns the view of the layer that call number `call` uses.
  KvCacheView layer(int64_t call) const {
    KvCacheView kv = view;
    const int64_t offset = call % num_layers * layer_bytes;
    kv.key = static_cast<uint8_t*>(kv.key) + offset;
    if (!kv.is_latent()) kv.value = static_cast<uint8_t*>(kv.value) + offset;
    return kv;
  }

  // Returns the block ids of `count` logical blocks: a permutation of the pool's blocks, repeated.
  std::vector<int32_t> block_table(int64_t count) const {
    std::vector<int32_t> blocks(static_cast<size_t>(num_blocks));
    std::iota(blocks.begin(), blocks.end(), 0);
    std::mt19937 random(1);
    std::shuffle(blocks.begin(), blocks.end(), random);
    std::vector<int32_t> table(static_cast<size_t>(count));
    for (size_t i = 0; i < table.size(); ++i) table[i] = blocks[i % blocks.size()];
    return table;
  }
};

// `memory` has kKvPoolBytes.
inline KvPool make_kv_pool(const kernel_cases::NamedAttention& shape, DType dtype,
                           int32_t block_size, uint8_t* memory) {
  const int64_t half_bytes =
      kv_half_block_bytes(dtype, shape.num_kv_heads, shape.head_dim, block_size);
  const int64_t layer_bytes = (shape.latent_dim > 0 ? 1 : 2) * half_bytes;
  const int64_t block_bytes = layer_bytes * shape.num_layers;
  return {.view = {.key = memory,
                   .value = shape.latent_dim > 0 ? nullptr : memory + half_bytes,
                   .dtype = dtype,
                   .block_stride = block_bytes / size_bytes(dtype),
                   .block_size = block_size,
                   .num_kv_heads = shape.num_kv_heads,
                   .head_dim = shape.head_dim,
                   .latent_dim = shape.latent_dim},
          .layer_bytes = layer_bytes,
          .num_layers = shape.num_layers,
          .num_blocks = static_cast<int32_t>(kKvPoolBytes / block_bytes)};
}

}  // namespace quire::bench
