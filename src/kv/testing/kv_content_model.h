// For tests: a model of the content of a device's blocks. The KV of a position, and the state after
// it, is a hash of all tokens up to it, so that a wrong block, a stale slot, a state that is too
// old or too new, or another sequence's prefix is always noticed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "core/kv_spec.h"
#include "core/step.h"
#include "kv/groups/group_policy.h"

namespace quire::test {

inline uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}

// Returns the hash of tokens [0, end) under a tenant's keys.
inline uint64_t context_hash(std::span<const TokenId> tokens, size_t end, uint64_t keys = 1) {
  uint64_t h = mix(0x51u, keys);
  for (size_t i = 0; i < end; ++i) h = mix(h, static_cast<uint64_t>(tokens[i]) + 7);
  return h;
}

// Returns the fake model's next token after `tokens`.
inline TokenId next_token(std::span<const TokenId> tokens, int32_t vocab_size) {
  return static_cast<TokenId>(mix(context_hash(tokens, tokens.size()), 99) %
                              static_cast<uint64_t>(vocab_size));
}

class KvContentModel {
 public:
  KvContentModel(const KvSpec& spec, int32_t num_blocks, int32_t num_state_blocks = 0)
      : spec_(spec) {
    slots_of(KvPool::kAttention)
        .assign(static_cast<size_t>(num_blocks) * num_slots(KvPool::kAttention), 0);
    slots_of(KvPool::kState)
        .assign(static_cast<size_t>(num_state_blocks) * num_slots(KvPool::kState), 0);
  }

  void begin_step() { written_.clear(); }

  void copy(const BlockCopy& copy) {
    QUIRE_CHECK(copy.source != kNullBlock && copy.destination != kNullBlock &&
                copy.source != copy.destination);
    std::vector<uint64_t>& slots = slots_of(copy.pool);
    for (size_t i = 0; i < num_slots(copy.pool); ++i)
      slots[first_slot(copy.pool, copy.destination) + i] =
          slots[first_slot(copy.pool, copy.source) + i];
  }

  // Copies to or from a block of host memory, which is created when it is first used.
  void copy(const HostBlockCopy& copy) {
    QUIRE_CHECK(copy.block != kNullBlock && copy.host_block != kNullBlock);
    const size_t size = num_slots(copy.pool);
    std::vector<uint64_t>& host_slots = host_slots_[static_cast<size_t>(copy.pool)];
    const size_t host = first_slot(copy.pool, copy.host_block);
    if (host_slots.size() < host + size) host_slots.resize(host + size, 0);
    for (size_t i = 0; i < size; ++i) {
      uint64_t& here = slots_of(copy.pool)[first_slot(copy.pool, copy.block) + i];
      (copy.to_host ? host_slots[host + i] : here) = copy.to_host ? here : host_slots[host + i];
    }
  }

  // Computes positions [begin, end) of a sequence through its block tables: first reads everything
  // that a model would read, then writes. Returns whether every read found this sequence's own
  // context.
  bool compute(std::span<const TokenId> tokens, int32_t begin, int32_t end,
               const std::vector<std::vector<BlockId>>& tables, uint64_t keys = 1) {
    bool good = true;
    for (size_t g = 0; g < tables.size(); ++g) {
      good = good && (spec_.groups[g].kind == KvKind::kState
                          ? step_state(tokens, begin, end, tables[g], salt_of(keys, g))
                          : step_slots(tokens, begin, end, tables[g], g, salt_of(keys, g)));
    }
    return good;
  }

  // Returns whether `block` holds block `index` of `tokens`, in group g.
  bool holds(BlockId block, std::span<const TokenId> tokens, int32_t index, size_t g,
             uint64_t keys = 1) const {
    const KvPool pool = spec_.groups[g].pool();
    const int32_t size = spec_.pool(pool).block_size;
    const bool is_state = pool == KvPool::kState;
    for (int32_t i = is_state ? size - 1 : 0; i < size; ++i) {
      const auto end = static_cast<size_t>(index * size + i + 1);
      const size_t slot = first_slot(pool, block) + (is_state ? 0 : static_cast<size_t>(i));
      if (slots_[static_cast<size_t>(pool)][slot] != context_hash(tokens, end, salt_of(keys, g)))
        return false;
    }
    return true;
  }

 private:
  static uint64_t salt_of(uint64_t keys, size_t g) { return keys * 64 + g; }
  std::vector<uint64_t>& slots_of(KvPool pool) { return slots_[static_cast<size_t>(pool)]; }
  // A block of states holds one state.
  size_t num_slots(KvPool pool) const {
    return pool == KvPool::kState ? 1 : static_cast<size_t>(spec_.block_size);
  }
  size_t first_slot(KvPool pool, BlockId block) const {
    return static_cast<size_t>(block.value) * num_slots(pool);
  }
  int32_t first_position_read(size_t g, int32_t begin) const {
    const KvGroupSpec& group = spec_.groups[g];
    return group.kind == KvKind::kFull ? 0 : std::max(0, begin - group.sliding_window + 1);
  }

  bool step_slots(std::span<const TokenId> tokens, int32_t begin, int32_t end,
                  const std::vector<BlockId>& table, size_t g, uint64_t salt) {
    bool good = true;
    std::vector<uint64_t>& slots = slots_of(KvPool::kAttention);
    const auto slot = [&](BlockId block, int32_t position) {
      return first_slot(KvPool::kAttention, block) +
             static_cast<size_t>(position % spec_.block_size);
    };
    for (int32_t p = first_position_read(g, begin); p < begin; ++p) {
      const BlockId block = table.at(static_cast<size_t>(p / spec_.block_size));
      good = good && block != kNullBlock &&
             slots[slot(block, p)] == context_hash(tokens, static_cast<size_t>(p) + 1, salt);
    }
    for (int32_t p = begin; p < end; ++p) {
      const BlockId block = table.at(static_cast<size_t>(p / spec_.block_size));
      const size_t s = slot(block, p);
      good =
          good && block != kNullBlock &&
          written_.insert({KvPool::kAttention, s}).second;  // S-2: slots of one step are distinct
      slots[s] = context_hash(tokens, static_cast<size_t>(p) + 1, salt);
    }
    return good;
  }

  // Reads the state after position begin - 1 and writes one in each block that it passes.
  bool step_state(std::span<const TokenId> tokens, int32_t begin, int32_t end,
                  const std::vector<BlockId>& table, uint64_t salt) {
    bool good = true;
    std::vector<uint64_t>& slots = slots_of(KvPool::kState);
    const int32_t size = spec_.state.block_size;
    if (begin > 0) {
      const BlockId block = table.at(static_cast<size_t>((begin - 1) / size));
      good = block != kNullBlock && slots[first_slot(KvPool::kState, block)] ==
                                        context_hash(tokens, static_cast<size_t>(begin), salt);
    }
    for (int32_t i = begin / size; i * size < end; ++i) {
      const BlockId block = table.at(static_cast<size_t>(i));
      const size_t s = first_slot(KvPool::kState, block);
      good = good && block != kNullBlock && written_.insert({KvPool::kState, s}).second;
      slots[s] = context_hash(tokens, static_cast<size_t>(std::min(end, (i + 1) * size)), salt);
    }
    return good;
  }

  KvSpec spec_;
  std::array<std::vector<uint64_t>, kNumKvPools> slots_;
  std::array<std::vector<uint64_t>, kNumKvPools> host_slots_;
  std::set<std::pair<KvPool, size_t>> written_;
};

}  // namespace quire::test
