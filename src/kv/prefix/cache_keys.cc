#include "kv/prefix/cache_keys.h"

#include <algorithm>

#include "base/check.h"

namespace quire {
namespace {

// Appends a media item: its position, the first of its embeddings, and its key.
void append_media(const MediaSpan& span, std::string& media) {
  const std::string& key = span.item->key;
  const int64_t fields[] = {span.begin, span.end, span.first, static_cast<int64_t>(key.size())};
  media.append(reinterpret_cast<const char*>(fields), sizeof fields);
  media.append(key);
}

}  // namespace

CacheKeyTable::CacheKeyTable(uint64_t hash_seed) : hasher_(hash_seed) {
  keys_.push_back({.keys = {}, .root = hasher_.root({}), .num_users = 1});
  ids_by_root_.emplace(keys_[0].root.low, 0);
}

std::optional<int32_t> CacheKeyTable::find(const CacheKeys& keys) const {
  if (keys.salt.empty() && keys.adapter.empty() && keys.media.empty()) return 0;
  const auto [begin, end] = ids_by_root_.equal_range(hasher_.root(keys).low);
  for (auto it = begin; it != end; ++it) {
    if (keys_[static_cast<size_t>(it->second)].keys == keys) return it->second;
  }
  return std::nullopt;
}

int32_t CacheKeyTable::acquire(const CacheKeys& keys) {
  if (const auto found = find(keys)) {
    acquire(*found);
    return *found;
  }
  int32_t id;
  if (unused_.empty()) {
    id = static_cast<int32_t>(keys_.size());
    keys_.emplace_back();
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  keys_[static_cast<size_t>(id)] = {.keys = keys, .root = hasher_.root(keys), .num_users = 1};
  ids_by_root_.emplace(root(id).low, id);
  return id;
}

SequenceKeys CacheKeyTable::acquire(const CacheKeys& keys, std::span<const MediaSpan> media) {
  SequenceKeys ids{.first = acquire(keys)};
  if (media.empty()) return ids;
  CacheKeys more = keys;
  for (const MediaSpan& span : media) {
    append_media(span, more.media);
    ids.changes.push_back({.begin = span.begin, .keys = acquire(more)});
  }
  return ids;
}

void CacheKeyTable::release(const SequenceKeys& keys) {
  release(keys.first);
  for (const SequenceKeys::Change& change : keys.changes) release(change.keys);
}

CacheKeyTable::Known CacheKeyTable::find(const CacheKeys& keys,
                                         std::span<const MediaSpan> media) const {
  const std::optional<int32_t> first = find(keys);
  if (!first) return {.keys = {}, .num_tokens = 0};
  Known known{.keys = {.first = *first}};
  CacheKeys more = keys;
  for (const MediaSpan& span : media) {
    append_media(span, more.media);
    const std::optional<int32_t> id = find(more);
    if (!id) {
      known.num_tokens = span.begin;
      break;
    }
    known.keys.changes.push_back({.begin = span.begin, .keys = *id});
  }
  return known;
}

void CacheKeyTable::release(int32_t id) {
  Keys& record = keys_[static_cast<size_t>(id)];
  QUIRE_CHECK(record.num_users > 0, "cache key {} released twice", id);
  if (--record.num_users > 0 || id == 0) return;
  const auto [begin, end] = ids_by_root_.equal_range(record.root.low);
  ids_by_root_.erase(
      std::find_if(begin, end, [id](const auto& pair) { return pair.second == id; }));
  record = {};
  unused_.push_back(id);
}

}  // namespace quire
