// A MaskCache stores token masks by the hash of the state that they belong to. It evicts the least
// recently used mask first.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "grammar/rules/hash.h"

namespace quire::grammar {

// A Crossing is a trie node at which some terminals of a lexer state end. The rest of a token that
// continues below it must match what follows these terminals.
struct Crossing {
  uint32_t trie_node = 0;
  uint32_t ends = 0;  // index in TokenMask::end_sets
};

// A TokenMask holds the allowed tokens, as a list if they are few, else as a row of bits.
struct TokenMask {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> bits;
  std::vector<Crossing> crossings;
  std::vector<std::vector<uint32_t>> end_sets;  // positions among the state's entries
  // For a mask that many states share: `open_nodes` are trie nodes below which the tokens depend on
  // the state; at `open_ends` only the question whether a terminal may end does.
  std::vector<uint32_t> open_nodes, open_ends;

  void add_to(std::span<uint32_t> row) const {
    for (const TokenId id : tokens) row[static_cast<size_t>(id) / 32] |= 1U << (id % 32);
    for (size_t i = 0; i < bits.size(); ++i) row[i] |= bits[i];
  }
  // Stores the allowed tokens in the smaller form.
  void set_allowed(std::vector<uint32_t> row);
  size_t num_bytes() const {
    size_t total = sizeof(TokenMask) + tokens.size() * 4 + bits.size() * 4 + crossings.size() * 8 +
                   (open_nodes.size() + open_ends.size()) * 4;
    for (const auto& set : end_sets) total += set.size() * 4 + 32;
    return total;
  }
};

// All methods are thread-safe.
class MaskCache {
 public:
  explicit MaskCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Returns a mask, or null when it is absent. Masks are shared because an entry may be evicted
  // while a request still reads it.
  std::shared_ptr<const TokenMask> find(const Hash128& key);
  void insert(const Hash128& key, std::shared_ptr<const TokenMask> mask);

 private:
  struct Entry {
    Hash128 key;
    std::shared_ptr<const TokenMask> mask;
  };
  const size_t max_bytes_;
  std::mutex mutex_;
  size_t num_bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<Hash128, std::list<Entry>::iterator, Hash128Hasher> index_;
};

}  // namespace quire::grammar
