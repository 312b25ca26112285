#include "draft/suffix_drafter.h"

#include <algorithm>

namespace quire {

std::span<const TokenId> SuffixDrafter::propose(const Request& request, int32_t max_drafts) {
  auto it = automata_.find(request.id);
  if (it == automata_.end()) {
    constexpr int64_t kExpectedBytesPerToken = 150;
    const int64_t expected = kExpectedBytesPerToken * request.num_tokens();
    if (memory_bytes_ + expected > options_.max_memory_bytes) return {};
    it = automata_.try_emplace(request.id).first;
    memory_bytes_ += it->second.memory_bytes();
  }
  SuffixAutomaton& automaton = it->second;
  memory_bytes_ -= automaton.memory_bytes();
  for (int32_t i = automaton.num_tokens(); i < request.num_tokens(); ++i)
    automaton.append(request.token_ids[static_cast<size_t>(i)]);
  memory_bytes_ += automaton.memory_bytes();
  const SuffixAutomaton::Match match = automaton.longest_match();
  const auto most = static_cast<int64_t>(options_.max_spec_factor * match.length);
  const int64_t count = std::min<int64_t>({max_drafts, most, automaton.num_tokens() - match.end});
  if (count <= 0) return {};
  return automaton.text().subspan(static_cast<size_t>(match.end), static_cast<size_t>(count));
}

void SuffixDrafter::forget(RequestId id) {
  const auto it = automata_.find(id);
  if (it == automata_.end()) return;
  memory_bytes_ -= it->second.memory_bytes();
  automata_.erase(it);
}

}  // namespace quire
