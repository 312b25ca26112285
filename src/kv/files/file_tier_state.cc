#include "kv/files/file_tier_state.h"

namespace quire {

KvHash FileTierState::cell(KvSequenceId id, const BlockChain& chain, int32_t index) {
  std::vector<KvHash>& known = at(id).cells;
  const auto size = static_cast<size_t>(options.cell_tokens);
  while (static_cast<int32_t>(known.size()) <= index) {
    const BlockHash parent = known.empty() ? stores.keys().root(chain.keys.first)
                                           : BlockHash{known.back().low, known.back().high};
    const BlockHash hash =
        stores.keys().hasher().extend(parent, chain.tokens.subspan(known.size() * size, size));
    known.push_back({hash.low, hash.high});
  }
  return known[static_cast<size_t>(index)];
}

KvHash FileTierState::state(KvSequenceId id, const BlockChain& chain, int32_t num_tokens) {
  constexpr uint64_t kStateTag = 0x5354415445;  // "STATE"
  const KvHash hash = cell(id, chain, num_tokens / options.cell_tokens - 1);
  return {hash.low ^ kStateTag, hash.high};
}

std::vector<KvHash> FileTierState::cells(KvSequenceId id, const BlockChain& chain, int32_t first,
                                         int32_t count) {
  std::vector<KvHash> hashes;
  for (int32_t i = first; i < first + count; ++i) hashes.push_back(cell(id, chain, i));
  return hashes;
}

}  // namespace quire
