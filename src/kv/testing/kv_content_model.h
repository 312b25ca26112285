// For tests: what a device would have in its KV slots. The KV of a position is a hash of all tokens
// up to it, so that a wrong block, a stale slot or another sequence's prefix never goes unnoticed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "core/kv_spec.h"
#include "core/step.h"
#include "kv/group_policy.h"

namespace quire::test {

inline uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}

// Hash of tokens [0, end) under a tenant's keys.
inline uint64_t context_hash(std::span<const TokenId> tokens, size_t end, uint64_t keys = 1) {
  uint64_t h = mix(0x51u, keys);
  for (size_t i = 0; i < end; ++i) h = mix(h, static_cast<uint64_t>(tokens[i]) + 7);
  return h;
}

// What the fake model says after `tokens`.
inline TokenId next_token(std::span<const TokenId> tokens, int32_t vocab_size) {
  return static_cast<TokenId>(mix(context_hash(tokens, tokens.size()), 99) %
                              static_cast<uint64_t>(vocab_size));
}

class KvContentModel {
 public:
  KvContentModel(const KvSpec& spec, int32_t num_blocks)
      : spec_(spec),
        slots_(static_cast<size_t>(num_blocks) * static_cast<size_t>(spec.block_size), 0) {}

  void begin_step() { written_.clear(); }

  void copy(const BlockCopy& copy) {
    QUIRE_CHECK(copy.source != kNullBlock && copy.destination != kNullBlock &&
                copy.source != copy.destination);
    for (int32_t i = 0; i < spec_.block_size; ++i)
      slots_[slot(copy.destination, i)] = slots_[slot(copy.source, i)];
  }

  // To or from a block of host memory, which comes into being as it is needed.
  void copy(const HostBlockCopy& copy) {
    QUIRE_CHECK(copy.block != kNullBlock && copy.host_block != kNullBlock);
    const auto size = static_cast<size_t>(spec_.block_size);
    const size_t host = static_cast<size_t>(copy.host_block.value) * size;
    if (host_slots_.size() < host + size) host_slots_.resize(host + size, 0);
    for (size_t i = 0; i < size; ++i) {
      uint64_t& here = slots_[slot(copy.block, static_cast<int32_t>(i))];
      (copy.to_host ? host_slots_[host + i] : here) = copy.to_host ? here : host_slots_[host + i];
    }
  }

  // Computes positions [begin, end) of a sequence through its block tables: first reads everything
  // that attention would read, then writes. True when every read found this sequence's own context.
  bool compute(std::span<const TokenId> tokens, int32_t begin, int32_t end,
               const std::vector<std::vector<BlockId>>& tables, uint64_t keys = 1) {
    bool good = true;
    for (size_t g = 0; g < tables.size(); ++g) {
      const uint64_t salt = salt_of(keys, g);
      const auto first = first_position_read(g, begin);
      for (int32_t p = first; p < begin; ++p) {
        const BlockId block = tables[g].at(static_cast<size_t>(p / spec_.block_size));
        good = good && block != kNullBlock &&
               slots_[slot(block, p % spec_.block_size)] ==
                   context_hash(tokens, static_cast<size_t>(p) + 1, salt);
      }
      for (int32_t p = begin; p < end; ++p) {
        const BlockId block = tables[g].at(static_cast<size_t>(p / spec_.block_size));
        const size_t s = slot(block, p % spec_.block_size);
        good = good && block != kNullBlock &&
               written_.insert(s).second;  // S-2: slots of one step are distinct
        slots_[s] = context_hash(tokens, static_cast<size_t>(p) + 1, salt);
      }
    }
    return good;
  }

  // Does `block` hold block `index` of `tokens`, in group g?
  bool holds(BlockId block, std::span<const TokenId> tokens, int32_t index, size_t g,
             uint64_t keys = 1) const {
    for (int32_t i = 0; i < spec_.block_size; ++i) {
      const auto end = static_cast<size_t>(index * spec_.block_size + i + 1);
      if (slots_[slot(block, i)] != context_hash(tokens, end, salt_of(keys, g))) return false;
    }
    return true;
  }

 private:
  static uint64_t salt_of(uint64_t keys, size_t g) { return keys * 64 + g; }
  size_t slot(BlockId block, int32_t offset) const {
    return static_cast<size_t>(block.value) * static_cast<size_t>(spec_.block_size) +
           static_cast<size_t>(offset);
  }
  int32_t first_position_read(size_t g, int32_t begin) const {
    const KvGroupSpec& group = spec_.groups[g];
    return group.kind == KvKind::kFull ? 0 : std::max(0, begin - group.sliding_window + 1);
  }

  KvSpec spec_;
  std::vector<uint64_t> slots_;
  std::vector<uint64_t> host_slots_;
  std::set<size_t> written_;
};

}  // namespace quire::test
