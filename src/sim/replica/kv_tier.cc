#include "sim/replica/kv_tier.h"

#include <algorithm>
#include <cmath>
#include <variant>

namespace quire::sim {

KvTier::KvTier(const KvTierOptions& options, int32_t block_size, double bytes_per_token,
               uint64_t hash_seed)
    : options_(options),
      block_size_(block_size),
      bytes_per_token_(bytes_per_token),
      capacity_blocks_(options.capacity_tokens / block_size),
      hasher_(hash_seed),
      root_(hasher_.root({})) {}

void KvTier::on_events(std::span<const KvEvent> events) {
  for (const KvEvent& event : events) {
    // One group stands for all, because all groups evict a block's content at about the same time.
    const auto* removed = std::get_if<BlockRemoved>(&event);
    if (removed != nullptr && removed->group == 0) keep(removed->hash);
  }
}

void KvTier::keep(const BlockHash& hash) {
  if (capacity_blocks_ < 1) return;
  if (const auto it = by_hash_.find(hash); it != by_hash_.end()) {
    recent_.splice(recent_.begin(), recent_, it->second);
    return;
  }
  if (num_blocks() >= capacity_blocks_) {
    by_hash_.erase(recent_.back());
    recent_.pop_back();
  }
  recent_.push_front(hash);
  by_hash_.emplace(hash, recent_.begin());
}

int32_t KvTier::touch(std::span<const TokenId> prompt, int32_t num_cached) {
  const auto size = static_cast<size_t>(block_size_);
  BlockHash parent = root_;
  size_t begin = 0;
  // A request has to compute at least its last token.
  for (; begin + size < prompt.size(); begin += size) {
    const BlockHash hash = hasher_.extend(parent, prompt.subspan(begin, size));
    parent = hash;
    if (begin < static_cast<size_t>(num_cached)) continue;
    const auto it = by_hash_.find(hash);
    if (it == by_hash_.end()) break;
    recent_.splice(recent_.begin(), recent_, it->second);
  }
  return std::max(0, static_cast<int32_t>(begin) - num_cached);
}

int64_t KvTier::load(int32_t num_tokens, int64_t now_ns) {
  const double seconds = num_tokens * bytes_per_token_ / options_.bytes_per_s;
  link_free_ns_ = std::max(link_free_ns_, now_ns) + std::llround(seconds * 1e9);
  return link_free_ns_ + options_.latency_ns;
}

}  // namespace quire::sim
