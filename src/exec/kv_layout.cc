#include "exec/kv_layout.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "core/kv_grouping.h"

namespace quire {

KvLayout make_kv_layout(const DecoderSpec& spec, int32_t block_size, DType dtype) {
  std::vector<int32_t> windows;
  for (const auto& layer : spec.layers) windows.push_back(layer.sliding_window);
  KvGrouping grouping = group_layers(windows);
  KvLayout layout;
  layout.dtype = dtype;
  layout.num_kv_heads = spec.num_kv_heads;
  layout.head_dim = spec.head_dim;
  layout.layer_group.resize(spec.layers.size());
  layout.layer_part.resize(spec.layers.size());
  layout.parts_per_block = grouping.parts_per_block;
  layout.spec.groups = std::move(grouping.groups);
  for (size_t g = 0; g < layout.spec.groups.size(); ++g) {
    const std::vector<int32_t>& layers = layout.spec.groups[g].layers;
    for (size_t part = 0; part < layers.size(); ++part) {
      layout.layer_group[static_cast<size_t>(layers[part])] = static_cast<int32_t>(g);
      layout.layer_part[static_cast<size_t>(layers[part])] = static_cast<int32_t>(part);
    }
  }
  layout.spec.block_size = block_size;
  layout.spec.block_bytes =
      2 * kv_half_block_bytes(dtype, spec.num_kv_heads, spec.head_dim, block_size) *
      layout.parts_per_block;
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
    LayerCache cache{part_view(pool, layer_part[layer]), layer_group[layer]};
    const size_t first_head = layer * static_cast<size_t>(num_kv_heads);
    if (!key_scales.empty()) cache.view.key_scale = &key_scales[first_head];
    if (!value_scales.empty()) cache.view.value_scale = &value_scales[first_head];
    caches.push_back(cache);
  }
  return caches;
}

}  // namespace quire
