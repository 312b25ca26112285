// PrefixLookup finds which prefix of some tokens the cache holds for every group. It changes no
// block.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "core/kv_spec.h"
#include "kv/blocks/block_stores.h"
#include "kv/prefix/block_hash.h"
#include "kv/prefix/prefix_cache.h"

namespace quire {

using KvSequenceId = StrongId<struct KvSequenceIdTag, int32_t>;

// The first num_tokens tokens of a sequence, which the cache offers to it.
struct PrefixHit {
  int32_t num_tokens = 0;
  // num_tokens ends inside a block of some group; that block must be copied before it is written.
  bool partial_block = false;
  // The tokens come from a running sequence's table (fork), not from the prefix cache.
  bool from_fork = false;
  KvSequenceId fork_source{};
};

// Hashes of a sequence's leading full blocks, for each pool.
using BlockHashes = std::array<std::vector<BlockHash>, kNumKvPools>;

// A chain identifies the content of a sequence's tokens in the cache. `hashes` grow as far as a
// lookup needs them. It borrows all three, and lives for one call.
struct BlockChain {
  const SequenceKeys& keys;  // ids in BlockStores::keys()
  std::span<const TokenId> tokens;
  BlockHashes& hashes;
};

// Finds cached prefixes. Borrows the stores; several lookups may share them, on one thread.
class PrefixLookup {
 public:
  PrefixLookup(const KvSpec& spec, const BlockStores& stores) : spec_(spec), stores_(stores) {}

  // Hashes the chain's first num_blocks blocks of a pool.
  void extend(BlockChain& chain, KvPool pool, int32_t num_blocks) const {
    if (static_cast<int32_t>(hashes(chain, pool).size()) < num_blocks)
      hash_up_to(chain, pool, num_blocks);
  }
  // Returns the content of block `index` of the group.
  BlockContent content(BlockChain& chain, int32_t group, int32_t index) const {
    const KvPool pool = spec_.groups[static_cast<size_t>(group)].pool();
    extend(chain, pool, index + 1);
    const auto i = static_cast<size_t>(index);
    const auto size = static_cast<size_t>(block_size(group));
    const std::vector<BlockHash>& known = hashes(chain, pool);
    return {.group = group,
            .keys = chain.keys.of_block(static_cast<int64_t>((i + 1) * size)),
            .hash = known[i],
            .parent = i == 0 ? stores_.keys().root(chain.keys.first) : known[i - 1],
            .tokens = chain.tokens.subspan(i * size, size)};
  }
  std::optional<BlockId> find(BlockChain& chain, int32_t group, int32_t index) const {
    const KvPool pool = spec_.groups[static_cast<size_t>(group)].pool();
    return stores_.at(pool).cache().find(content(chain, group, index));
  }

  // Whether a prefix of num_tokens tokens ends inside a block of some group.
  bool ends_inside_block(int32_t num_tokens) const;
  // Returns the tokens of the longest prefix in whole blocks after which every group can continue.
  int32_t longest_hit_tokens(BlockChain& chain) const;
  // Returns the longest prefix, in whole blocks, that leaves at least one token to compute.
  PrefixHit whole_blocks(const BlockChain& chain) const;
  // Returns the longest prefix, which may end inside a block, that leaves at least one token to
  // compute.
  PrefixHit longest(const BlockChain& chain) const;

 private:
  static std::vector<BlockHash>& hashes(BlockChain& chain, KvPool pool) {
    return chain.hashes[static_cast<size_t>(pool)];
  }
  void hash_up_to(BlockChain& chain, KvPool pool, int32_t num_blocks) const;
  int32_t num_groups() const { return static_cast<int32_t>(spec_.groups.size()); }
  int32_t block_size(int32_t group) const {
    return spec_.pool(spec_.groups[static_cast<size_t>(group)].pool()).block_size;
  }
  bool all_groups_hold(BlockChain& chain, int32_t num_tokens) const;

  const KvSpec& spec_;
  const BlockStores& stores_;
};

}  // namespace quire
