#include "route/prefix_index.h"

#include <algorithm>
#include <functional>

#include "base/hash/splitmix64.h"

namespace quire {
std::vector<uint64_t> prefix_chain(uint64_t seed, std::string_view text, size_t piece_bytes) {
  const size_t num_pieces = std::min(text.size() / piece_bytes, kMostPieces);
  std::vector<uint64_t> chain;
  chain.reserve(num_pieces);
  uint64_t state = splitmix64_finalizer(seed + 1);
  for (size_t i = 0; i < num_pieces; ++i) {
    const uint64_t piece = std::hash<std::string_view>()(text.substr(i * piece_bytes, piece_bytes));
    chain.push_back(state = splitmix64_finalizer(state ^ piece) + i);
  }
  return chain;
}

std::vector<uint64_t> prefix_chain(uint64_t seed, std::span<const int32_t> token_ids,
                                   size_t piece_tokens) {
  const std::string_view bytes(reinterpret_cast<const char*>(token_ids.data()),
                               token_ids.size_bytes());
  return prefix_chain(seed, bytes, piece_tokens * sizeof(int32_t));
}

int32_t PrefixIndex::match(std::span<const uint64_t> chain, int32_t replica) const {
  const auto found = replicas_.find(replica);
  if (found == replicas_.end()) return 0;
  int32_t num_known = 0;
  for (const uint64_t piece : chain) {
    if (!found->second.places.contains(piece)) break;
    ++num_known;
  }
  return num_known;
}

void PrefixIndex::unlink(Replica& replica, uint32_t at) {
  const Link& link = replica.links[at];
  replica.links[link.newer].older = link.older;
  replica.links[link.older].newer = link.newer;
}

void PrefixIndex::link_newest(Replica& replica, uint32_t at) {
  Link& ends = replica.links[0];
  Link& link = replica.links[at];
  link.newer = 0;
  link.older = ends.older;
  replica.links[ends.older].newer = at;
  replica.links[0].older = at;
}

// The pieces are noted from the last to the first, so that the first ones are the newest, which are
// dropped last.
void PrefixIndex::note(std::span<const uint64_t> chain, int32_t replica_id) {
  Replica& replica = replicas_[replica_id];
  chain = chain.first(std::min(chain.size(), max_pieces_));
  for (size_t i = chain.size(); i-- > 0;) {
    const auto [place, is_new] = replica.places.try_emplace(chain[i], 0);
    if (!is_new) {
      unlink(replica, place->second);
    } else if (replica.links.size() <= max_pieces_) {
      place->second = static_cast<uint32_t>(replica.links.size());
      replica.links.push_back({.piece = chain[i]});
    } else {
      const uint32_t oldest = replica.links[0].newer;
      unlink(replica, oldest);
      replica.places.erase(replica.links[oldest].piece);
      replica.links[oldest].piece = chain[i];
      place->second = oldest;
    }
    link_newest(replica, place->second);
  }
}

void PrefixIndex::forget(int32_t replica) { replicas_.erase(replica); }

size_t PrefixIndex::num_pieces(int32_t replica) const {
  const auto found = replicas_.find(replica);
  return found == replicas_.end() ? 0 : found->second.places.size();
}

}  // namespace quire
