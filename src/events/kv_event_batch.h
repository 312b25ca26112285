// Encodes changes of the prefix cache in vLLM's wire format, for routers that keep track of it.
//
// Routers name blocks by their tokens alone. Blocks that depend on more (a cache salt, an adapter,
// media) are left out, since a router would take them for blocks that any request can use. For a
// model with several groups of layers, only the first group is reported.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>

#include "kv/books/kv_events.h"

namespace quire {

// vLLM has used both formats; a reader of one cannot read the other.
enum class KvEventFormat : uint8_t {
  kMap,    // {"type": "BlockRemoved", "block_hashes": [hash, …], "medium": "GPU"}, since mid-2026
  kArray,  // ["BlockRemoved", [hash, …], "GPU"], until then
};

class KvEventBatches {
 public:
  // `hash_seed` is the KvOptions::hash_seed of the cache that the events are about.
  KvEventBatches(int32_t block_size, uint64_t hash_seed, KvEventFormat format);

  // Returns [ts, [event, …], nil] in MessagePack for the events of one step, or an empty string if
  // there is nothing to report.
  //   BlockStored: block_hashes, parent_block_hash or nil, token_ids, block_size, lora_id nil,
  //                medium "GPU", lora_name nil
  //   BlockRemoved: block_hashes, medium "GPU"
  //   AllBlocksCleared
  // A hash is the lower half of BlockHash.
  std::string encode(std::span<const KvEvent> events, double unix_time_s);

 private:
  struct Hash {
    size_t operator()(const BlockHash& hash) const { return hash.low; }
  };
  struct Run;  // consecutive blocks stored, or blocks removed one after the other
  bool add(const KvEvent& event, Run& run) const;
  bool is_told(const KvEvent& event);
  void put(std::string& out, const Run& run) const;

  const int32_t block_size_;
  const KvEventFormat format_;
  const BlockHash root_;                      // of sequences that depend on tokens alone
  std::unordered_set<BlockHash, Hash> told_;  // blocks in the cache that were reported
};

}  // namespace quire
