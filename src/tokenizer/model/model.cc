#include "tokenizer/model/model.h"

#include <algorithm>
#include <cstring>

namespace quire {

size_t WordCache::slot(std::string_view word) {
  // Up to three overlapping 8-byte reads are mixed by multiplication.
  uint64_t a = 0;
  uint64_t b = 0;
  uint64_t c = 0;
  const size_t n = word.size();
  if (n >= 8) {
    std::memcpy(&a, word.data(), 8);
    std::memcpy(&b, word.data() + n - 8, 8);
    if (n > 16) std::memcpy(&c, word.data() + 8, 8);
  } else {
    std::memcpy(&a, word.data(), n);
  }
  uint64_t h = (a ^ n) * 0x9E3779B97F4A7C15u;
  h ^= h >> 29;
  h = (h ^ b) * 0xBF58476D1CE4E5B9u;
  h ^= h >> 32;
  h = (h ^ c) * 0x94D049BB133111EBu;
  return static_cast<size_t>(h >> 40) & (kNumEntries - 1);
}

void WordCache::store(std::string_view word, const TokenId* ids, size_t num_ids) {
  if (word.size() > kMaxWordBytes || num_ids == 0 || num_ids > kMaxIds) return;
  Entry& entry = entries_[slot(word)];
  std::copy(word.begin(), word.end(), entry.bytes.begin());
  entry.num_bytes = static_cast<uint8_t>(word.size());
  entry.num_ids = static_cast<uint8_t>(num_ids);
  std::copy(ids, ids + num_ids, entry.ids.begin());
}

}  // namespace quire
