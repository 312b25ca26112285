#include "exec/kv_layout.h"

#include <algorithm>
#include <cstddef>
#include <map>

namespace quire {
namespace {

// Layers per group. Padding costs memory, every group costs bookkeeping: as much as half a layer,
// by taste.
int64_t choose_group_size(const std::map<int32_t, std::vector<int32_t>>& kinds) {
  int64_t largest = 1;
  for (const auto& [window, layers] : kinds)
    largest = std::max(largest, static_cast<int64_t>(layers.size()));
  int64_t best = largest;
  int64_t best_cost = -1;
  for (int64_t size = largest; size >= 1; --size) {
    int64_t cost = 0;  // in half layers
    for (const auto& [window, layers] : kinds) {
      const int64_t groups = (static_cast<int64_t>(layers.size()) + size - 1) / size;
      cost += groups * (2 * size + 1);
    }
    if (best_cost < 0 || cost < best_cost) {
      best = size;
      best_cost = cost;
    }
  }
  return best;
}

}  // namespace

KvLayout make_kv_layout(const DecoderSpec& spec, int32_t block_size, DType dtype) {
  std::map<int32_t, std::vector<int32_t>> kinds;  // window -> layers; full attention (0) first
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    kinds[spec.layers[i].sliding_window].push_back(static_cast<int32_t>(i));
  }
  KvLayout layout;
  layout.dtype = dtype;
  layout.num_kv_heads = spec.num_kv_heads;
  layout.head_dim = spec.head_dim;
  layout.layer_group.resize(spec.layers.size());
  layout.layer_part.resize(spec.layers.size());
  const auto size = static_cast<size_t>(choose_group_size(kinds));
  layout.parts_per_block = static_cast<int32_t>(size);
  for (const auto& [window, layers] : kinds) {
    for (size_t begin = 0; begin < layers.size(); begin += size) {
      KvGroupSpec group;
      group.kind = window > 0 ? KvKind::kSlidingWindow : KvKind::kFull;
      group.sliding_window = window;
      for (size_t i = begin; i < std::min(begin + size, layers.size()); ++i) {
        layout.layer_group[static_cast<size_t>(layers[i])] =
            static_cast<int32_t>(layout.spec.groups.size());
        layout.layer_part[static_cast<size_t>(layers[i])] = static_cast<int32_t>(i - begin);
        group.layers.push_back(layers[i]);
      }
      layout.spec.groups.push_back(std::move(group));
    }
  }
  layout.spec.block_size = block_size;
  layout.spec.block_bytes =
      2 * spec.kv_rows() * block_size * size_bytes(dtype) * layout.parts_per_block;
  return layout;
}

double KvLayout::bytes_per_token() const {
  return static_cast<double>(spec.block_bytes) * static_cast<double>(spec.groups.size()) /
         spec.block_size;
}

KvCacheView KvLayout::part_view(void* pool, int32_t part) const {
  std::byte* key = static_cast<std::byte*>(pool) + part * part_bytes();
  return {.key = key,
          .value = key + part_bytes() / 2,
          .dtype = dtype,
          .block_stride = spec.block_bytes / size_bytes(dtype),
          .block_size = spec.block_size,
          .num_kv_heads = num_kv_heads,
          .head_dim = head_dim};
}

std::vector<LayerCache> KvLayout::layer_caches(void* pool) const {
  std::vector<LayerCache> caches;
  for (size_t layer = 0; layer < layer_group.size(); ++layer) {
    caches.push_back({part_view(pool, layer_part[layer]), layer_group[layer]});
  }
  return caches;
}

}  // namespace quire
