#include "kv/prefix_cache.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace quire {

PrefixCache::PrefixCache(int32_t num_blocks, int32_t block_size, uint64_t hash_seed)
    : hasher_(hash_seed), block_size_(static_cast<size_t>(block_size)) {
  const auto n = static_cast<size_t>(num_blocks);
  entries_.resize(n);
  tokens_.resize(n * block_size_);
  buckets_.resize(std::bit_ceil(n));
  keys_.push_back({.keys = {}, .root = hasher_.root({}), .num_users = 1});
  keys_by_root_.emplace(keys_[0].root.low, 0);
}

std::optional<int32_t> PrefixCache::find_keys(const CacheKeys& keys) const {
  if (keys.salt.empty() && keys.adapter.empty()) return 0;
  const auto [begin, end] = keys_by_root_.equal_range(hasher_.root(keys).low);
  for (auto it = begin; it != end; ++it) {
    if (keys_[static_cast<size_t>(it->second)].keys == keys) return it->second;
  }
  return std::nullopt;
}

int32_t PrefixCache::acquire_keys(const CacheKeys& keys) {
  if (const auto found = find_keys(keys)) {
    ++keys_[static_cast<size_t>(*found)].num_users;
    return *found;
  }
  int32_t id;
  if (unused_keys_.empty()) {
    id = static_cast<int32_t>(keys_.size());
    keys_.emplace_back();
  } else {
    id = unused_keys_.back();
    unused_keys_.pop_back();
  }
  keys_[static_cast<size_t>(id)] = {.keys = keys, .root = hasher_.root(keys), .num_users = 1};
  keys_by_root_.emplace(root(id).low, id);
  return id;
}

void PrefixCache::release_keys(int32_t id) {
  Keys& record = keys_[static_cast<size_t>(id)];
  QUIRE_CHECK(record.num_users > 0, "cache key {} released twice", id);
  if (--record.num_users > 0 || id == 0) return;
  const auto [begin, end] = keys_by_root_.equal_range(record.root.low);
  keys_by_root_.erase(
      std::find_if(begin, end, [id](const auto& pair) { return pair.second == id; }));
  record = {};
  unused_keys_.push_back(id);
}

size_t PrefixCache::bucket_of(const BlockHash& hash, int32_t group) const {
  return static_cast<size_t>(hash.low + 0x9e3779b97f4a7c15u * static_cast<uint64_t>(group)) &
         (buckets_.size() - 1);
}

bool PrefixCache::matches(int32_t block, const BlockContent& content) const {
  const Entry& e = entries_[static_cast<size_t>(block)];
  if (e.group != content.group || e.keys != content.keys || e.hash != content.hash ||
      e.parent != content.parent) {
    return false;
  }
  const auto stored =
      tokens_.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(block) * block_size_);
  return std::equal(content.tokens.begin(), content.tokens.end(), stored);
}

std::optional<BlockId> PrefixCache::find(const BlockContent& content) const {
  QUIRE_DCHECK(content.tokens.size() == block_size_, "KV-4: {} tokens", content.tokens.size());
  int32_t block = buckets_[bucket_of(content.hash, content.group)].first;
  while (block != 0) {
    if (matches(block, content)) return BlockId(block);
    block = entries_[static_cast<size_t>(block)].next;
  }
  return std::nullopt;
}

bool PrefixCache::insert(BlockId block, const BlockContent& content) {
  QUIRE_CHECK(content.tokens.size() == block_size_ && !contains(block),
              "KV-4: only a full block that is not registered can be, block {}", block.value);
  const bool first = !find(content).has_value();
  ++keys_[static_cast<size_t>(content.keys)].num_users;
  Bucket& bucket = buckets_[bucket_of(content.hash, content.group)];
  entry(block) = {.registered = true,
                  .group = content.group,
                  .keys = content.keys,
                  .prev = bucket.last,
                  .next = 0,
                  .hash = content.hash,
                  .parent = content.parent};
  (bucket.last == 0 ? bucket.first : entries_[static_cast<size_t>(bucket.last)].next) = block.value;
  bucket.last = block.value;
  std::copy(
      content.tokens.begin(), content.tokens.end(),
      tokens_.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(block.value) * block_size_));
  ++num_registered_;
  return first;
}

bool PrefixCache::erase(BlockId block) {
  QUIRE_CHECK(contains(block), "KV-4: block {} is not registered", block.value);
  Entry& e = entry(block);
  Bucket& bucket = buckets_[bucket_of(e.hash, e.group)];
  (e.prev == 0 ? bucket.first : entries_[static_cast<size_t>(e.prev)].next) = e.next;
  (e.next == 0 ? bucket.last : entries_[static_cast<size_t>(e.next)].prev) = e.prev;
  const bool last = !find(content(block)).has_value();
  const int32_t keys = e.keys;
  e = {};
  --num_registered_;
  release_keys(keys);
  return last;
}

BlockContent PrefixCache::content(BlockId block) const {
  const Entry& e = entry(block);
  const size_t begin = static_cast<size_t>(block.value) * block_size_;
  return {.group = e.group,
          .keys = e.keys,
          .hash = e.hash,
          .parent = e.parent,
          .tokens = std::span(tokens_).subspan(begin, block_size_)};
}

void PrefixCache::clear() {
  for (Entry& e : entries_) {
    if (!e.registered) continue;
    const int32_t keys = e.keys;
    e = {};
    release_keys(keys);
  }
  std::fill(buckets_.begin(), buckets_.end(), Bucket{});
  num_registered_ = 0;
}

}  // namespace quire
