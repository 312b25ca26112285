// Each block of a pool as somebody who looks on sees it.
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
  RequestId owner{};  // one of the requests that hold it; meaningful when in use or shared
};

// Returns one entry per block of a pool, by id, or none for a pool that is not used. It takes
// O(blocks + table entries).
std::vector<KvBlockView> view_blocks(const BlockStores& stores, const BlockTables& tables,
                                     KvPool pool);

}  // namespace quire
