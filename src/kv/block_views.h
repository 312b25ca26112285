// A view of each block of a pool, for display.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "kv/blocks/block_stores.h"
#include "kv/tables/block_tables.h"

namespace quire {

enum class KvBlockState : uint8_t { kNull, kFree, kCached, kInUse, kShared };

struct KvBlockView {
  KvBlockState state = KvBlockState::kFree;
  bool registered = false;  // in the prefix cache
  int32_t ref_cnt = 0;
  RequestId owner{};  // one of the requests that hold it; only set while it is in use or shared
};

// Returns one entry per block of a pool, by id; empty for a pool that is not used. Takes O(blocks +
// table entries).
std::vector<KvBlockView> view_blocks(const BlockStores& stores, const BlockTables& tables,
                                     KvPool pool);

}  // namespace quire
