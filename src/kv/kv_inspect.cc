// KvManager: looking at it from outside. Nothing here changes anything, except the drains.

#include <algorithm>
#include <unordered_map>

#include "kv/kv_manager.h"

namespace quire {

KvStats KvManager::stats() const {
  KvStats stats = totals_;
  stats.num_usable_blocks = num_usable_blocks();
  stats.num_free_blocks = pool_.num_free();
  stats.num_cached_blocks = cache_.num_registered();
  stats.num_reserved_slots = int64_t{num_usable_blocks() - pool_.num_free()} * spec_.block_size;
  stats.num_unused_slots = num_unused_slots_;
  stats.num_host_blocks_kept = host_ ? host_->num_kept() : 0;
  return stats;
}

void KvManager::snapshot(std::vector<KvBlockView>& out) const {
  out.assign(static_cast<size_t>(pool_.num_blocks()), {});
  out[0].state = KvBlockState::kNull;
  for (int32_t i = 1; i < pool_.num_blocks(); ++i) {
    KvBlockView& view = out[static_cast<size_t>(i)];
    view.ref_cnt = pool_.ref_cnt(BlockId(i));
    view.registered = cache_.contains(BlockId(i));
    if (view.ref_cnt == 0) {
      view.state = view.registered ? KvBlockState::kCached : KvBlockState::kFree;
    } else {
      view.state = view.ref_cnt == 1 ? KvBlockState::kInUse : KvBlockState::kShared;
    }
  }
  for (const Sequence& sequence : sequences_) {
    for (const GroupTable& table : sequence.groups) {
      for (const BlockId block : table.blocks)
        out[static_cast<size_t>(block.value)].owner = sequence.owner;
    }
  }
  out[0].owner = {};
}

void KvManager::drain_events(std::vector<KvEvent>& out) {
  out.clear();
  out.swap(events_);
}

void KvManager::drain_residency(std::vector<ResidencySample>& out) { residency_.drain(out); }

// KV-2 and KV-6 as seen from the tables; counts references.
Status KvManager::check_tables(std::vector<int32_t>& refs) const {
  for (const Sequence& sequence : sequences_) {
    for (const GroupTable& table : sequence.groups) {
      if (!sequence.open && !table.blocks.empty())
        return internal_error("KV-2: a closed sequence holds blocks");
      if (table.blocks.size() != sequence.groups[0].blocks.size()) {
        return internal_error("KV-2: tables of one sequence differ in length");
      }
      for (size_t i = 0; i < table.blocks.size(); ++i) {
        const BlockId block = table.blocks[i];
        if ((block == kNullBlock) != (i < static_cast<size_t>(table.num_freed))) {
          return internal_error(
              "KV-2: request {} entry {} is block {}, {} entries have left the window",
              sequence.owner.value, i, block.value, table.num_freed);
        }
        if (block == kNullBlock) continue;
        if (!pool_.valid(block))
          return internal_error("KV-2: table entry {} of {}", block.value, pool_.num_blocks());
        ++refs[static_cast<size_t>(block.value)];
      }
    }
  }
  // The block that is written next must be private and unregistered.
  for (const Sequence& sequence : sequences_) {
    for (const GroupTable& table : sequence.groups) {
      for (auto i = static_cast<size_t>(sequence.num_computed_tokens / spec_.block_size);
           i < table.blocks.size(); ++i) {
        const BlockId block = table.blocks[i];
        if (refs[static_cast<size_t>(block.value)] != 1 || cache_.contains(block)) {
          return internal_error("KV-6: request {} may write block {}, which is {}",
                                sequence.owner.value, block.value,
                                cache_.contains(block) ? "cached" : "shared");
        }
      }
    }
  }
  for (const std::vector<BlockId>* extra : {&pins_, &held_}) {
    for (const BlockId block : *extra) ++refs[static_cast<size_t>(block.value)];
  }
  return {};
}

// KV-1, KV-2, KV-3.
Status KvManager::check_pool(const std::vector<int32_t>& refs) const {
  int32_t num_referenced = 0;
  for (int32_t i = 1; i < pool_.num_blocks(); ++i) {
    const int32_t ref_cnt = pool_.ref_cnt(BlockId(i));
    if (ref_cnt != refs[static_cast<size_t>(i)]) {
      return internal_error("KV-2: block {} has ref_cnt {}, {} references found", i, ref_cnt,
                            refs[static_cast<size_t>(i)]);
    }
    num_referenced += ref_cnt > 0 ? 1 : 0;
  }
  std::vector<bool> seen(static_cast<size_t>(pool_.num_blocks()), false);
  int32_t num_listed = 0;
  for (BlockId block = pool_.first_free(); block != kNullBlock; block = pool_.next_free(block)) {
    if (seen[static_cast<size_t>(block.value)] || pool_.ref_cnt(block) != 0) {
      return internal_error("KV-3: block {} is on the free list {}", block.value,
                            pool_.ref_cnt(block) != 0 ? "and in use" : "twice");
    }
    seen[static_cast<size_t>(block.value)] = true;
    ++num_listed;
  }
  if (num_listed != pool_.num_free() || num_listed + num_referenced != num_usable_blocks()) {
    return internal_error("KV-1: {} free + {} referenced blocks, expected {} (free count {})",
                          num_listed, num_referenced, num_usable_blocks(), pool_.num_free());
  }
  return {};
}

// KV-4: every registered block's hash is that of its parent and tokens, and the cache finds such
// content.
Status KvManager::check_cache() const {
  int32_t num_registered = 0;
  for (int32_t i = 1; i < pool_.num_blocks(); ++i) {
    if (!cache_.contains(BlockId(i))) continue;
    ++num_registered;
    const BlockContent content = cache_.content(BlockId(i));
    if (cache_.hasher().extend(content.parent, content.tokens) != content.hash ||
        !cache_.find(content)) {
      return internal_error("KV-4: block {} is registered under a hash that is not its content's",
                            i);
    }
  }
  if (num_registered != cache_.num_registered()) {
    return internal_error("KV-4: {} blocks are registered, the cache counts {}", num_registered,
                          cache_.num_registered());
  }
  return {};
}

Status KvManager::check_integrity() const {
  std::vector<int32_t> refs(static_cast<size_t>(pool_.num_blocks()), 0);
  QUIRE_RETURN_IF_ERROR(check_tables(refs));
  QUIRE_RETURN_IF_ERROR(check_pool(refs));
  QUIRE_RETURN_IF_ERROR(check_cache());
  const bool any_open =
      std::any_of(sequences_.begin(), sequences_.end(), [](const Sequence& s) { return s.open; });
  if (!any_open && pins_.empty() && held_.empty() && pool_.num_free() != num_usable_blocks()) {
    return internal_error("KV-7: nothing is running and {} of {} blocks are free", pool_.num_free(),
                          num_usable_blocks());
  }
  int64_t unused = 0;
  for (const Sequence& sequence : sequences_) unused += num_unused_slots(sequence);
  if (unused != num_unused_slots_) {
    return internal_error("slot accounting: {} unused slots, {} counted", unused,
                          num_unused_slots_);
  }
  return {};
}

}  // namespace quire
