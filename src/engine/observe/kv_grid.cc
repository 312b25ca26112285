#include "engine/observe/kv_grid.h"

#include <unordered_map>
#include <vector>

#include "kv/block_views.h"

namespace quire {
namespace {

KvCellState cell_state(KvBlockState state) {
  switch (state) {
    case KvBlockState::kNull:
      return KvCellState::kNull;
    case KvBlockState::kFree:
      return KvCellState::kFree;
    case KvBlockState::kCached:
      return KvCellState::kCached;
    case KvBlockState::kInUse:
      return KvCellState::kInUse;
    case KvBlockState::kShared:
      break;
  }
  return KvCellState::kShared;
}

}  // namespace

KvGridSnapshot make_kv_grid(const KvManager& kv,
                            const std::function<const std::string*(RequestId)>& owner_of) {
  const bool has_attention = kv.spec().uses(KvPool::kAttention);
  const KvPool pool = has_attention ? KvPool::kAttention : KvPool::kState;
  const std::vector<KvBlockView> views = view_blocks(kv.stores(), kv.tables(), pool);
  KvGridSnapshot grid;
  grid.block_size = kv.spec().pool(pool).block_size;
  grid.blocks.reserve(views.size());
  std::unordered_map<const std::string*, int32_t> owner_index;
  for (const KvBlockView& view : views) {
    KvGridCell cell{.state = cell_state(view.state), .owner = -1, .ref_cnt = view.ref_cnt};
    const std::string* const owner = view.ref_cnt > 0 ? owner_of(view.owner) : nullptr;
    if (owner != nullptr) {
      const auto [it, added] =
          owner_index.try_emplace(owner, static_cast<int32_t>(grid.owners.size()));
      if (added) grid.owners.push_back(*owner);
      cell.owner = it->second;
    }
    grid.blocks.push_back(cell);
  }
  return grid;
}

}  // namespace quire
