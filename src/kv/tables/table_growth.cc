#include "kv/tables/table_growth.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/check.h"
#include "kv/groups/group_policy.h"

namespace quire {

BlockId TableGrowth::hit_block(BlockChain& chain, const PrefixHit& hit, int32_t g,
                               int32_t index) const {
  if (hit.from_fork)
    return sequences_.at(hit.fork_source).table(g).blocks[static_cast<size_t>(index)];
  const std::optional<BlockId> block = lookup_.find(chain, g, index);
  QUIRE_CHECK(block.has_value(), "KV-4: block {} of a hit left the cache before it was adopted",
              index);
  return *block;
}

TableGrowth::Need TableGrowth::compute_need(KvSequence& sequence, const AllocateArgs& args) const {
  const int32_t num_hit = args.hit.num_tokens;
  const int64_t start = num_hit > 0 ? num_hit : args.num_computed_tokens;
  Need need{.num_tokens =
                sizing_.reserved_tokens(start + args.num_new_tokens + args.num_lookahead_tokens)};
  const int64_t full = std::max<int64_t>(need.num_tokens, args.num_full_tokens);
  BlockChain chain{sequence.keys, args.tokens, sequence.hashes};
  for (int32_t g = 0; g < sizing_.num_groups(); ++g) {
    const KvPool pool = sizing_.group(g).pool();
    const int32_t block_size = sizing_.block_size(g);
    const GroupTable& table = sequence.table(g);
    auto size = static_cast<int64_t>(table.blocks.size());
    int64_t held = table.num_held();
    if (num_hit > 0) {
      const int32_t first = first_needed_block(sizing_.group(g), block_size, num_hit);
      for (int32_t i = first; i < sizing_.round_up_to_blocks(g, num_hit); ++i) {
        if (store(g).pool().ref_cnt(hit_block(chain, args.hit, g, i)) == 0)
          ++need.num_hits_free[pool];
      }
      // A block that the hit ends inside is copied, and the copy is a new block.
      size = num_hit / block_size;
      held = std::max<int64_t>(0, size - first);
    }
    const int64_t grow =
        std::max<int64_t>(0, sizing_.round_up_to_blocks(g, need.num_tokens) - size);
    need.num_new[pool] += grow;
    need.num_full[pool] +=
        full == need.num_tokens ? grow : std::max(grow, sizing_.most_blocks(g, full, start) - held);
  }
  return need;
}

// The reserve of a pool does not matter if nothing is taken from it.
bool TableGrowth::has_room(const Need& need, const BlockCounts& num_reserved_blocks) const {
  const BlockCounts available = stores_.num_free() - need.num_hits_free - num_reserved_blocks;
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState}) {
    const int64_t most = std::max(need.num_new[pool], need.num_full[pool]);
    if (most + need.num_hits_free[pool] > 0 && most > available[pool]) return false;
  }
  return true;
}

bool TableGrowth::grow(KvSequence& sequence, const AllocateArgs& args) const {
  const Need need = compute_need(sequence, args);
  if (!has_room(need, args.num_reserved_blocks)) return false;
  if (args.hit.num_tokens > 0) adopt_hit(sequence, args);
  sequence.capacity_tokens = std::numeric_limits<int32_t>::max();
  for (int32_t g = 0; g < sizing_.num_groups(); ++g) {
    std::vector<BlockId>& blocks = sequence.table(g).blocks;
    const int32_t size = sizing_.round_up_to_blocks(g, need.num_tokens);
    while (static_cast<int32_t>(blocks.size()) < size) blocks.push_back(store(g).take());
    sequence.capacity_tokens = std::min(sequence.capacity_tokens, size * sizing_.block_size(g));
  }
  sequence.tables_changed = true;
  return true;
}

void TableGrowth::adopt_hit(KvSequence& sequence, const AllocateArgs& args) const {
  const PrefixHit& hit = args.hit;
  BlockChain chain{sequence.keys, args.tokens, sequence.hashes};
  // Blocks to keep are referenced before any block is taken, since taking could evict them.
  for (int32_t g = 0; g < sizing_.num_groups(); ++g) {
    GroupTable& table = sequence.table(g);
    const int32_t block_size = sizing_.block_size(g);
    const int32_t num_full = hit.num_tokens / block_size;
    const int32_t first =
        std::min(num_full, first_needed_block(sizing_.group(g), block_size, hit.num_tokens));
    table.blocks.assign(static_cast<size_t>(first), kNullBlock);
    for (int32_t i = first; i < num_full; ++i) {
      table.blocks.push_back(hit_block(chain, hit, g, i));
      store(g).touch(table.blocks.back());
    }
    table.num_freed = first;
    table.num_committed = num_full;
  }
  sequence.num_computed_tokens = hit.num_tokens;
  if (hit.partial_block) copy_partial_blocks(sequence, chain, hit);
}

// Gives the sequence blocks of its own in place of those that the hit ends inside.
void TableGrowth::copy_partial_blocks(KvSequence& sequence, BlockChain& chain,
                                      const PrefixHit& hit) const {
  size_t copy = copies_.all().size();
  for (int32_t g = 0; g < sizing_.num_groups(); ++g) {
    const int32_t block_size = sizing_.block_size(g);
    if (hit.num_tokens % block_size != 0)
      copies_.add(store(g), hit_block(chain, hit, g, hit.num_tokens / block_size));
  }
  for (int32_t g = 0; g < sizing_.num_groups(); ++g) {
    if (hit.num_tokens % sizing_.block_size(g) == 0) continue;
    std::vector<BlockId>& blocks = sequence.table(g).blocks;
    blocks.push_back(store(g).take());
    copies_.set_destination(copy++, blocks.back());
  }
}

void TableGrowth::free_out_of_window(KvSequence& sequence) const {
  for (int32_t g = 0; g < sizing_.num_groups(); ++g) {
    GroupTable& table = sequence.table(g);
    const int32_t first = std::min(
        first_needed_block(sizing_.group(g), sizing_.block_size(g), sequence.num_computed_tokens),
        static_cast<int32_t>(table.blocks.size()));
    for (int32_t i = first; i-- > table.num_freed;) {
      store(g).unref(table.blocks[static_cast<size_t>(i)]);
      table.blocks[static_cast<size_t>(i)] = kNullBlock;
    }
    if (first > table.num_freed) sequence.tables_changed = true;
    table.num_freed = std::max(table.num_freed, first);
  }
}

}  // namespace quire
