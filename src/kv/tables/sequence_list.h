// SequenceList: the sequences that are open in the cache, with their tables.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "kv/blocks/prefix_lookup.h"
#include "kv/tables/block_sizing.h"

namespace quire {

// The table of one group: entry i is the block of tokens [i * block_size, (i + 1) * block_size).
struct GroupTable {
  std::vector<BlockId> blocks;  // by logical index; null blocks before the window
  int32_t num_freed = 0;        // leading null blocks
  int32_t num_sent = 0;         // leading entries that the executor has
  int32_t num_freed_sent = 0;
  int32_t num_committed = 0;  // leading blocks that commit() has processed

  int32_t num_held() const { return static_cast<int32_t>(blocks.size()) - num_freed; }
};

struct KvSequence {
  bool open = false;
  RequestId owner;
  SequenceKeys keys;  // ids in BlockStores::keys()
  int32_t num_computed_tokens = 0;
  int32_t capacity_tokens = 0;  // tokens from position 0 that every group has room for
  bool tables_changed = false;  // since the last plan
  BlockHashes hashes;           // computed on demand
  std::vector<GroupTable> groups;

  GroupTable& table(int32_t g) { return groups[static_cast<size_t>(g)]; }
  const GroupTable& table(int32_t g) const { return groups[static_cast<size_t>(g)]; }
};

// Returns the slots of its blocks of KvPool::kAttention without a computed token.
int64_t num_unused_slots(const KvSequence& sequence, const BlockSizing& sizing);

class SequenceList {
 public:
  // Borrows `sizing`. Tables have room for max_sequence_tokens from the start.
  SequenceList(const BlockSizing& sizing, int32_t max_sequence_tokens)
      : sizing_(sizing), max_sequence_tokens_(max_sequence_tokens) {}

  KvSequenceId open(RequestId owner, SequenceKeys keys);
  // Closes a sequence, whose tables are empty, and returns its keys.
  SequenceKeys close(KvSequenceId id);
  KvSequence& at(KvSequenceId id) {
    QUIRE_DCHECK(id.value >= 0 && id.value < static_cast<int32_t>(sequences_.size()));
    return sequences_[static_cast<size_t>(id.value)];
  }
  const KvSequence& at(KvSequenceId id) const {
    QUIRE_DCHECK(id.value >= 0 && id.value < static_cast<int32_t>(sequences_.size()));
    return sequences_[static_cast<size_t>(id.value)];
  }
  // Returns all sequences, including closed ones.
  std::span<const KvSequence> all() const { return sequences_; }
  bool any_open() const { return closed_.size() != sequences_.size(); }

 private:
  const BlockSizing& sizing_;
  const int32_t max_sequence_tokens_;
  std::vector<KvSequence> sequences_;
  std::vector<KvSequenceId> closed_;
};

}  // namespace quire
