#include "kv/tables/sequence_list.h"

namespace quire {

int64_t num_unused_slots(const KvSequence& sequence, const BlockSizing& sizing) {
  int64_t sum = 0;
  for (int32_t g = 0; g < sizing.num_groups(); ++g) {
    const std::vector<BlockId>& blocks = sequence.table(g).blocks;
    if (sizing.group(g).pool() != KvPool::kAttention || blocks.empty()) continue;
    sum +=
        static_cast<int64_t>(blocks.size()) * sizing.block_size(g) - sequence.num_computed_tokens;
  }
  return sum;
}

KvSequenceId SequenceList::open(RequestId owner, SequenceKeys keys) {
  if (closed_.empty()) {
    closed_.emplace_back(static_cast<int32_t>(sequences_.size()));
    KvSequence& added = sequences_.emplace_back();
    added.groups.resize(static_cast<size_t>(sizing_.num_groups()));
    for (int32_t g = 0; g < sizing_.num_groups(); ++g) {
      added.table(g).blocks.reserve(
          static_cast<size_t>(sizing_.round_up_to_blocks(g, max_sequence_tokens_)));
    }
  }
  const KvSequenceId id = closed_.back();
  closed_.pop_back();
  KvSequence& sequence = at(id);
  sequence.open = true;
  sequence.owner = owner;
  sequence.keys = std::move(keys);
  return id;
}

SequenceKeys SequenceList::close(KvSequenceId id) {
  KvSequence& sequence = at(id);
  QUIRE_CHECK(sequence.open, "KV-2: sequence {} closed twice", id.value);
  for (std::vector<BlockHash>& hashes : sequence.hashes) hashes.clear();
  sequence.open = false;
  closed_.push_back(id);
  return std::move(sequence.keys);
}

}  // namespace quire
