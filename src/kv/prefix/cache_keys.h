// CacheKeyTable: small ids for the cache keys of sequences. Equal keys have the same id as long as
// they have users. Id 0 means no keys and always exists. One thread may use it. SequenceKeys: the
// ids for the blocks of one sequence.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/request.h"
#include "kv/prefix/block_hash.h"

namespace quire {

// Ids of the keys of a sequence's blocks. The first blocks have the keys of the request; from the
// first block on that holds a token of a media item, blocks have keys that also name this item and
// those before it.
struct SequenceKeys {
  struct Change {
    int32_t begin = 0;  // the item's first token
    int32_t keys = 0;
  };
  int32_t first = 0;
  std::vector<Change> changes = {};

  // Returns the id for the block whose last token is at `end` - 1.
  int32_t of_block(int64_t end) const {
    int32_t keys = first;
    for (const Change& change : changes) {
      if (change.begin >= end) break;
      keys = change.keys;
    }
    return keys;
  }
};

class CacheKeyTable {
 public:
  explicit CacheKeyTable(uint64_t hash_seed);

  const BlockHasher& hasher() const { return hasher_; }
  // Returns the id of these keys and adds a user to it.
  int32_t acquire(const CacheKeys& keys);
  // Adds a user to an id that is in use.
  void acquire(int32_t id) { ++keys_[static_cast<size_t>(id)].num_users; }
  void release(int32_t id);
  std::optional<int32_t> find(const CacheKeys& keys) const;
  // Returns the keys of the blocks of a sequence and adds a user to each.
  SequenceKeys acquire(const CacheKeys& keys, std::span<const MediaSpan> media);
  void release(const SequenceKeys& keys);
  // Those of a sequence's keys that are in use. Nothing is cached from token `num_tokens` on.
  struct Known {
    SequenceKeys keys;
    int32_t num_tokens = std::numeric_limits<int32_t>::max();
  };
  Known find(const CacheKeys& keys, std::span<const MediaSpan> media) const;
  const CacheKeys& keys(int32_t id) const { return keys_[static_cast<size_t>(id)].keys; }
  const BlockHash& root(int32_t id) const { return keys_[static_cast<size_t>(id)].root; }
  // Returns the hash that goes into the hash of a block with these keys beside its tokens; null:
  // none.
  const BlockHash* media_root(int32_t id) const {
    const Keys& record = keys_[static_cast<size_t>(id)];
    return record.keys.media.empty() ? nullptr : &record.root;
  }

 private:
  struct Keys {
    CacheKeys keys;
    BlockHash root;
    int64_t num_users = 0;
  };

  const BlockHasher hasher_;
  std::vector<Keys> keys_;
  std::vector<int32_t> unused_;
  std::unordered_multimap<uint64_t, int32_t> ids_by_root_;
};

}  // namespace quire
