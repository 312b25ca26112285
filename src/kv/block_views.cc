#include "kv/block_views.h"

namespace quire {

std::vector<KvBlockView> view_blocks(const BlockStores& stores, const BlockTables& tables,
                                     KvPool pool) {
  if (!stores.uses(pool)) return {};
  const BlockStore& store = stores.at(pool);
  std::vector<KvBlockView> views(static_cast<size_t>(store.pool().num_blocks()));
  views[0].state = KvBlockState::kNull;
  for (int32_t i = 1; i < store.pool().num_blocks(); ++i) {
    KvBlockView& view = views[static_cast<size_t>(i)];
    view.ref_cnt = store.pool().ref_cnt(BlockId(i));
    view.registered = store.cache().contains(BlockId(i));
    if (view.ref_cnt == 0) {
      view.state = view.registered ? KvBlockState::kCached : KvBlockState::kFree;
    } else {
      view.state = view.ref_cnt == 1 ? KvBlockState::kInUse : KvBlockState::kShared;
    }
  }
  tables.for_each_entry(pool, [&](RequestId owner, BlockId block) {
    views[static_cast<size_t>(block.value)].owner = owner;
  });
  views[0].owner = {};
  return views;
}

}  // namespace quire
