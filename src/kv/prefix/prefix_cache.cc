#include "kv/prefix/prefix_cache.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace quire {
namespace {

uint32_t tag_of(const BlockHash& hash, int32_t group) {
  return static_cast<uint32_t>(hash.low) + 0x9e3779b9u * static_cast<uint32_t>(group);
}

}  // namespace

PrefixCache::PrefixCache(int32_t num_blocks, int32_t block_size, CacheKeyTable& keys)
    : keys_(keys), block_size_(static_cast<size_t>(block_size)) {
  const auto n = static_cast<size_t>(num_blocks);
  entries_.resize(n);
  tokens_.resize(n * block_size_);
  slots_.resize(2 * std::bit_ceil(n));
  registered_.resize(n);
}

bool PrefixCache::matches(int32_t block, const BlockContent& content) const {
  const Entry& e = entries_[static_cast<size_t>(block)];
  if (e.hash != content.hash || e.group != content.group || e.keys != content.keys ||
      e.parent != content.parent) {
    return false;
  }
  const TokenId* const stored = tokens_.data() + static_cast<size_t>(block) * block_size_;
  return stored == content.tokens.data() ||
         std::equal(content.tokens.begin(), content.tokens.end(), stored);
}

size_t PrefixCache::slot_of(const BlockContent& content) const {
  QUIRE_DCHECK(content.tokens.size() == block_size_, "KV-4: {} tokens", content.tokens.size());
  const uint32_t tag = tag_of(content.hash, content.group);
  size_t i = home(tag);
  while (slots_[i].block != 0 && (slots_[i].tag != tag || !matches(slots_[i].block, content))) {
    i = after(i);
  }
  return i;
}

std::optional<BlockId> PrefixCache::find(const BlockContent& content) const {
  const int32_t block = slots_[slot_of(content)].block;
  return block == 0 ? std::nullopt : std::optional(BlockId(block));
}

bool PrefixCache::insert(BlockId block, const BlockContent& content) {
  QUIRE_CHECK(content.tokens.size() == block_size_ && !contains(block),
              "KV-4: only a full block that is not registered can be, block {}", block.value);
  Slot& slot = slots_[slot_of(content)];
  const bool first = slot.block == 0;
  Entry& e = entry(block);
  e = {
      .hash = content.hash, .parent = content.parent, .group = content.group, .keys = content.keys};
  if (first) {
    slot = {.tag = tag_of(content.hash, content.group), .block = block.value};
    e.last = block.value;
  } else {
    Entry& head = entry(BlockId(slot.block));
    e.prev = head.last;
    entry(BlockId(head.last)).next = block.value;
    head.last = block.value;
  }
  keys_.acquire(content.keys);
  registered_[static_cast<size_t>(block.value)] = 1;
  std::copy(
      content.tokens.begin(), content.tokens.end(),
      tokens_.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(block.value) * block_size_));
  ++num_registered_;
  return first;
}

bool PrefixCache::erase(BlockId block) {
  QUIRE_CHECK(contains(block), "KV-4: block {} is not registered", block.value);
  const Entry& e = entry(block);
  const bool only = e.prev == 0 && e.next == 0;
  const size_t slot = slot_of(content(block));
  if (only) {
    close_gap(slot);
  } else if (e.prev == 0) {
    slots_[slot].block = e.next;
    entry(BlockId(e.next)).prev = 0;
    entry(BlockId(e.next)).last = e.last;
  } else {
    entry(BlockId(e.prev)).next = e.next;
    (e.next == 0 ? entry(BlockId(slots_[slot].block)).last : entry(BlockId(e.next)).prev) = e.prev;
  }
  registered_[static_cast<size_t>(block.value)] = 0;
  --num_registered_;
  keys_.release(e.keys);
  return only;
}

// Moves up slots that a search could no longer reach (Knuth, TAOCP 3, 6.4, algorithm R).
void PrefixCache::close_gap(size_t gap) {
  const size_t mask = slots_.size() - 1;
  for (size_t i = after(gap); slots_[i].block != 0; i = after(i)) {
    const size_t reach = (i - home(slots_[i].tag)) & mask;
    if (reach < ((i - gap) & mask)) continue;
    slots_[gap] = slots_[i];
    gap = i;
  }
  slots_[gap] = {};
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

void PrefixCache::prefetch_block(BlockId block) const {
  __builtin_prefetch(&entry(block), 1);
  __builtin_prefetch(tokens_.data() + static_cast<size_t>(block.value) * block_size_, 1);
}

void PrefixCache::prefetch_slot(BlockId block) const {
  prefetch_slot(entry(block).hash, entry(block).group);
}

void PrefixCache::prefetch_slot(const BlockHash& hash, int32_t group) const {
  __builtin_prefetch(&slots_[home(tag_of(hash, group))], 1);
}

void PrefixCache::clear() {
  for (size_t i = 0; i < registered_.size(); ++i) {
    if (registered_[i] == 0) continue;
    registered_[i] = 0;
    keys_.release(entries_[i].keys);
  }
  std::fill(slots_.begin(), slots_.end(), Slot{});
  num_registered_ = 0;
}

}  // namespace quire
