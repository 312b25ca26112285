// How a model's layers are cut into groups that share a block table (core/kv_spec.h).
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "core/kv_spec.h"

namespace quire {

// The properties by which layers are grouped: layers of one kind see the same tokens and take the
// same memory.
struct KvLayerKind {
  int32_t sliding_window = 0;  // 0: full attention
  int64_t block_bytes = 1;     // for the layer's keys and values in one block, in any unit
  friend auto operator<=>(const KvLayerKind&, const KvLayerKind&) = default;
};

// Each group holds layers of one kind, as many as fit into a block; the rest of the block is
// padding.
struct KvGrouping {
  std::vector<KvGroupSpec> groups;
  int64_t block_bytes = 1;  // of every group, in the unit of the layers' block_bytes
};

// Groups the layers. `layers` has the kind of each layer, with positive block_bytes. Groups of full
// attention come first, then those of windows, the smallest window first.
KvGrouping group_layers(std::span<const KvLayerKind> layers);

}  // namespace quire
