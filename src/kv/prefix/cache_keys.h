// CacheKeyTable: small numbers for the cache keys of sequences. Equal keys have one id while anyone
// uses them. Id 0 is "no keys" and always there. One thread may use it. SequenceKeys: those of the
// blocks of one sequence.
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

// Ids of the keys of a sequence's blocks: those of its request; and from the first block on that
// holds a token of a media item, those that name this item and the ones before it.
struct SequenceKeys {
  struct Change {
    int32_t begin = 0;  // the item's first token
    int32_t keys = 0;
  };
  int32_t first = 0;
  std::vector<Change> changes = {};

  // Of the block whose last token is the one before `end`.
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
  // Returns the id of these keys, which then have one user more.
  int32_t acquire(const CacheKeys& keys);
  // Adds a user to an id that is in use.
  void acquire(int32_t id) { ++keys_[static_cast<size_t>(id)].num_users; }
  void release(int32_t id);
  std::optional<int32_t> find(const CacheKeys& keys) const;
  // Returns the keys of the blocks of a sequence, which then have one user more each.
  SequenceKeys acquire(const CacheKeys& keys, std::span<const MediaSpan> media);
  void release(const SequenceKeys& keys);
  // Those that are in use; nothing is cached from token `num_tokens` on.
  struct Known {
    SequenceKeys keys;
    int32_t num_tokens = std::numeric_limits<int32_t>::max();
  };
  Known find(const CacheKeys& keys, std::span<const MediaSpan> media) const;
  const CacheKeys& keys(int32_t id) const { return keys_[static_cast<size_t>(id)].keys; }
  const BlockHash& root(int32_t id) const { return keys_[static_cast<size_t>(id)].root; }
  // Returns what the hash of a block with these keys takes in beside its tokens, or null for
  // nothing.
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
