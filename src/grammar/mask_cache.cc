#include "grammar/mask_cache.h"

#include <bit>

namespace quire::grammar {

void TokenMask::set_allowed(std::vector<uint32_t> row) {
  size_t count = 0;
  for (const uint32_t word : row) count += static_cast<size_t>(std::popcount(word));
  if (count >= row.size()) {
    bits = std::move(row);
    return;
  }
  tokens.reserve(count);
  for (size_t i = 0; i < row.size(); ++i) {
    for (uint32_t word = row[i]; word != 0; word &= word - 1) {
      tokens.push_back(static_cast<TokenId>(i * 32) + std::countr_zero(word));
    }
  }
}

std::shared_ptr<const TokenMask> MaskCache::find(const Hash128& key) {
  const std::lock_guard lock(mutex_);
  const auto it = index_.find(key);
  if (it == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, it->second);
  return it->second->mask;
}

void MaskCache::insert(const Hash128& key, std::shared_ptr<const TokenMask> mask) {
  const std::lock_guard lock(mutex_);
  if (index_.contains(key)) return;
  num_bytes_ += mask->num_bytes();
  entries_.push_front({key, std::move(mask)});
  index_[key] = entries_.begin();
  while (num_bytes_ > max_bytes_ && entries_.size() > 1) {
    num_bytes_ -= entries_.back().mask->num_bytes();
    index_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

}  // namespace quire::grammar
