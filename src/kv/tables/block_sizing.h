// BlockSizing: how many blocks some tokens take, by the groups of a model and the cache's options.
#pragma once

#include <cstdint>

#include "core/kv_spec.h"
#include "kv/books/block_counts.h"
#include "kv/books/kv_options.h"

namespace quire {

class BlockSizing {
 public:
  // Borrows both.
  BlockSizing(const KvSpec& spec, const KvOptions& options);

  int32_t num_groups() const { return static_cast<int32_t>(spec_.groups.size()); }
  const KvGroupSpec& group(int32_t g) const { return spec_.groups[static_cast<size_t>(g)]; }
  int32_t block_size(int32_t g) const { return spec_.pool(group(g).pool()).block_size; }
  // Returns the number of groups with blocks of KvPool::kAttention.
  int32_t num_attention_groups() const { return num_attention_groups_; }
  // Returns how many blocks of a group hold the first num_tokens tokens of a sequence.
  int32_t round_up_to_blocks(int32_t g, int64_t num_tokens) const {
    const int32_t size = block_size(g);
    return static_cast<int32_t>((num_tokens + size - 1) / size);
  }
  // Whether blocks leave some table while it grows.
  bool blocks_leave() const { return blocks_leave_; }
  // Returns how many tokens a sequence has room for once it has room for num_tokens.
  int64_t reserved_tokens(int64_t num_tokens) const;
  // Returns the most blocks of a group that a sequence holds at once while it grows to num_tokens
  // tokens.
  int64_t most_blocks(int32_t g, int64_t num_tokens, int64_t num_computed_tokens) const;
  // Returns how many blocks of all groups together hold `num_tokens` tokens of one sequence.
  BlockCounts blocks_for(int64_t num_tokens) const;
  // Returns one block for each group.
  BlockCounts a_block_each() const;

 private:
  const KvSpec& spec_;
  const KvOptions& options_;
  const bool blocks_leave_;
  const int32_t num_attention_groups_;
};

}  // namespace quire
