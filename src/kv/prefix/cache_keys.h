// CacheKeyTable: small numbers for the cache keys of sequences. Equal keys have one id while anyone
// uses them. Id 0 is "no keys" and always there. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/request.h"
#include "kv/prefix/block_hash.h"

namespace quire {

class CacheKeyTable {
 public:
  explicit CacheKeyTable(uint64_t hash_seed);

  const BlockHasher& hasher() const { return hasher_; }
  // The id of these keys, with one user more.
  int32_t acquire(const CacheKeys& keys);
  // One more user of an id that is in use.
  void acquire(int32_t id) { ++keys_[static_cast<size_t>(id)].num_users; }
  void release(int32_t id);
  std::optional<int32_t> find(const CacheKeys& keys) const;
  const CacheKeys& keys(int32_t id) const { return keys_[static_cast<size_t>(id)].keys; }
  const BlockHash& root(int32_t id) const { return keys_[static_cast<size_t>(id)].root; }

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
