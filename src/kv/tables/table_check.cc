// Checks whether the tables are sound: KV-2 and KV-6 as far as they concern one moment. Nothing
// here changes anything.
#include "kv/tables/block_tables.h"

namespace quire {
namespace {

// KV-2: checks the form of a sequence's tables, and counts their references.
Status check_entries(const KvSequence& sequence, const BlockSizing& sizing,
                     const BlockStores& stores, PoolRefs& refs) {
  for (int32_t g = 0; g < sizing.num_groups(); ++g) {
    const GroupTable& table = sequence.table(g);
    const KvPool name = sizing.group(g).pool();
    const BlockPool& pool = stores.at(name).pool();
    if (!sequence.open && !table.blocks.empty())
      return internal_error("KV-2: a closed sequence holds blocks");
    if (static_cast<int32_t>(table.blocks.size()) <
        sizing.round_up_to_blocks(g, sequence.capacity_tokens)) {
      return internal_error("KV-2: a table of {} blocks has no room for {} tokens",
                            table.blocks.size(), sequence.capacity_tokens);
    }
    for (size_t i = 0; i < table.blocks.size(); ++i) {
      const BlockId block = table.blocks[i];
      if ((block == kNullBlock) != (i < static_cast<size_t>(table.num_freed))) {
        return internal_error(
            "KV-2: request {} entry {} is block {}, {} entries have left the window",
            sequence.owner.value, i, block.value, table.num_freed);
      }
      if (block == kNullBlock) continue;
      if (!pool.valid(block))
        return internal_error("KV-2: table entry {} of {}", block.value, pool.num_blocks());
      ++refs[static_cast<size_t>(name)][static_cast<size_t>(block.value)];
    }
  }
  return {};
}

// KV-6: the block that is written next must be private and unregistered.
Status check_writable(const KvSequence& sequence, const BlockSizing& sizing,
                      const BlockStores& stores, const PoolRefs& refs) {
  for (int32_t g = 0; g < sizing.num_groups(); ++g) {
    const GroupTable& table = sequence.table(g);
    const KvPool name = sizing.group(g).pool();
    const std::vector<int32_t>& pool_refs = refs[static_cast<size_t>(name)];
    for (auto i = static_cast<size_t>(sequence.num_computed_tokens / sizing.block_size(g));
         i < table.blocks.size(); ++i) {
      const BlockId block = table.blocks[i];
      const bool cached = stores.at(name).cache().contains(block);
      if (pool_refs[static_cast<size_t>(block.value)] != 1 || cached) {
        return internal_error("KV-6: request {} may write block {}, which is {}",
                              sequence.owner.value, block.value, cached ? "cached" : "shared");
      }
    }
  }
  return {};
}

}  // namespace

Status BlockTables::check(PoolRefs& refs) const {
  int64_t unused = 0;
  for (const KvSequence& sequence : sequences_.all()) {
    QUIRE_RETURN_IF_ERROR(check_entries(sequence, sizing_, stores_, refs));
    unused += num_unused_slots(sequence, sizing_);
  }
  for (const KvSequence& sequence : sequences_.all())
    QUIRE_RETURN_IF_ERROR(check_writable(sequence, sizing_, stores_, refs));
  if (unused != num_unused_slots_) {
    return internal_error("slot accounting: {} unused slots, {} counted", unused,
                          num_unused_slots_);
  }
  return {};
}

}  // namespace quire
