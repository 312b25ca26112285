// How a model's layers are cut into groups that share a block table (core/kv_spec.h).
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "core/kv_spec.h"

namespace quire {

// What decides which layers may share a group: layers of one kind see the same tokens and take the
// same memory.
struct KvLayerKind {
  int32_t sliding_window = 0;  // 0: full attention
  int64_t block_bytes = 1;     // of the layer's keys and values in one block, or any unit of it
  friend auto operator<=>(const KvLayerKind&, const KvLayerKind&) = default;
};

// A group holds layers of one kind, as many as fit into a block: what is left of it is padding.
struct KvGrouping {
  std::vector<KvGroupSpec> groups;
  int64_t block_bytes = 1;  // of every group, in the unit of the layers
};

// `layers`: the kind of each layer, with positive block_bytes. Full attention comes first, then
// windows ascending.
KvGrouping group_layers(std::span<const KvLayerKind> layers);

}  // namespace quire
