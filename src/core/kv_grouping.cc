#include "core/kv_grouping.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace quire {
namespace {

using LayersByKind = std::map<KvLayerKind, std::vector<int32_t>>;

// Padding costs memory and every group costs bookkeeping. The cost of a group is set to half of the
// smallest layer's block, a choice by judgement.
int64_t choose_block_bytes(const LayersByKind& kinds) {
  std::set<int64_t, std::greater<>> candidates;  // multiples of each kind's layer size
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = 1;
  for (const auto& [kind, layers] : kinds) {
    least = std::min(least, kind.block_bytes);
    most = std::max(most, kind.block_bytes);
    for (size_t count = 1; count <= layers.size(); ++count)
      candidates.insert(static_cast<int64_t>(count) * kind.block_bytes);
  }
  int64_t best = most;
  int64_t best_cost = -1;
  for (const int64_t bytes : candidates) {
    if (bytes < most) break;  // every layer fits into a block
    int64_t cost = 0;         // in half bytes
    for (const auto& [kind, layers] : kinds) {
      const int64_t per_group = bytes / kind.block_bytes;
      const int64_t groups = (static_cast<int64_t>(layers.size()) + per_group - 1) / per_group;
      cost += groups * (2 * bytes + least);
    }
    if (best_cost < 0 || cost < best_cost) {
      best = bytes;
      best_cost = cost;
    }
  }
  return best;
}

}  // namespace

KvGrouping group_layers(std::span<const KvLayerKind> layers) {
  LayersByKind kinds;
  for (size_t i = 0; i < layers.size(); ++i) {
    kinds[layers[i]].push_back(static_cast<int32_t>(i));
  }
  KvGrouping grouping{.groups = {}, .block_bytes = choose_block_bytes(kinds)};
  for (const auto& [kind, members] : kinds) {
    const auto size = static_cast<size_t>(grouping.block_bytes / kind.block_bytes);
    for (size_t begin = 0; begin < members.size(); begin += size) {
      const size_t end = std::min(begin + size, members.size());
      KvGroupSpec group;
      group.kind = kind.sliding_window > 0 ? KvKind::kSlidingWindow : KvKind::kFull;
      group.sliding_window = kind.sliding_window;
      group.layers.assign(members.begin() + static_cast<std::ptrdiff_t>(begin),
                          members.begin() + static_cast<std::ptrdiff_t>(end));
      grouping.groups.push_back(std::move(group));
    }
  }
  return grouping;
}

}  // namespace quire
