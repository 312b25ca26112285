#include "core/kv_grouping.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace quire {
namespace {

using LayersByWindow = std::map<int32_t, std::vector<int32_t>>;

// Layers per group. Padding costs memory, every group costs bookkeeping: as much as half a layer,
// by taste.
int64_t choose_group_size(const LayersByWindow& kinds) {
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

KvGrouping group_layers(std::span<const int32_t> windows) {
  LayersByWindow kinds;
  for (size_t i = 0; i < windows.size(); ++i) {
    kinds[windows[i]].push_back(static_cast<int32_t>(i));
  }
  const auto size = static_cast<size_t>(choose_group_size(kinds));
  KvGrouping grouping{.groups = {}, .parts_per_block = static_cast<int32_t>(size)};
  for (const auto& [window, layers] : kinds) {
    for (size_t begin = 0; begin < layers.size(); begin += size) {
      const size_t end = std::min(begin + size, layers.size());
      KvGroupSpec group;
      group.kind = window > 0 ? KvKind::kSlidingWindow : KvKind::kFull;
      group.sliding_window = window;
      group.layers.assign(layers.begin() + static_cast<std::ptrdiff_t>(begin),
                          layers.begin() + static_cast<std::ptrdiff_t>(end));
      grouping.groups.push_back(std::move(group));
    }
  }
  return grouping;
}

}  // namespace quire
