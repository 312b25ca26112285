// PrefixLookup: which prefix of some tokens the cache holds for every group. It changes no block.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "core/kv_spec.h"
#include "kv/prefix/block_hash.h"
#include "kv/prefix/prefix_cache.h"

namespace quire {

using KvSequenceId = StrongId<struct KvSequenceIdTag, int32_t>;

// What the cache offers a sequence: its first num_tokens tokens are there.
struct PrefixHit {
  int32_t num_tokens = 0;
  // num_tokens ends inside a cached block, which must be copied before it is written.
  bool partial_block = false;
  // Set when the tokens come from a running sequence's table (fork) and not from the prefix cache.
  bool from_fork = false;
  KvSequenceId fork_source{};
};

// Where the tokens of a sequence lie in the cache's key space. `hashes` are those of its leading
// full blocks and grow as far as a question needs. Borrows all three; lives for one call.
struct BlockChain {
  int32_t keys = 0;  // PrefixCache key id
  std::span<const TokenId> tokens;
  std::vector<BlockHash>& hashes;
};

// Any number of lookups may share one cache. Borrows it; one thread.
class PrefixLookup {
 public:
  PrefixLookup(const KvSpec& spec, const PrefixCache& cache) : spec_(spec), cache_(cache) {}

  // Hashes the chain's first num_blocks blocks.
  void extend(BlockChain& chain, int32_t num_blocks) const {
    if (static_cast<int32_t>(chain.hashes.size()) < num_blocks) hash_up_to(chain, num_blocks);
  }
  BlockContent content(BlockChain& chain, int32_t group, int32_t index) const {
    extend(chain, index + 1);
    const auto i = static_cast<size_t>(index);
    const auto size = static_cast<size_t>(spec_.block_size);
    return {.group = group,
            .keys = chain.keys,
            .hash = chain.hashes[i],
            .parent = i == 0 ? cache_.root(chain.keys) : chain.hashes[i - 1],
            .tokens = chain.tokens.subspan(i * size, size)};
  }
  std::optional<BlockId> find(BlockChain& chain, int32_t group, int32_t index) const {
    return cache_.find(content(chain, group, index));
  }

  // Blocks of the longest prefix after which every group can go on.
  int32_t longest_hit_blocks(BlockChain& chain) const;
  // The longest prefix that leaves at least one token to compute, in whole blocks.
  PrefixHit whole_blocks(const BlockChain& chain) const;
  // The same, but a prefix may end inside a block.
  PrefixHit longest(const BlockChain& chain) const;

 private:
  void hash_up_to(BlockChain& chain, int32_t num_blocks) const;
  int32_t num_groups() const { return static_cast<int32_t>(spec_.groups.size()); }
  bool all_groups_hold(BlockChain& chain, int32_t num_tokens) const;

  const KvSpec& spec_;
  const PrefixCache& cache_;
};

}  // namespace quire
