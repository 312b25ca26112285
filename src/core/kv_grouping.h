// How a model's layers are cut into groups that share a block table (core/kv_spec.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/kv_spec.h"

namespace quire {

// One kind of attention per group; all groups hold parts_per_block layers but the last of a kind,
// which is padded.
struct KvGrouping {
  std::vector<KvGroupSpec> groups;
  int32_t parts_per_block = 1;
};

// `windows`: the sliding window of each layer, 0 full attention. Full attention comes first, then
// windows ascending.
KvGrouping group_layers(std::span<const int32_t> windows);

}  // namespace quire
