#include "draft/suffix_drafter.h"

#include <algorithm>

#include "draft/match_source.h"

namespace quire {
namespace {

// Stands between a prediction and the request's text: no token, so no match spans both.
constexpr TokenId kEndOfPrediction = -1;

// Tokens of an automaton before the request's own.
int32_t num_tokens_before(const Request& request) {
  if (request.params == nullptr || request.params->prediction_token_ids.empty()) return 0;
  return static_cast<int32_t>(request.params->prediction_token_ids.size()) + 1;
}

}  // namespace

void SuffixDrafter::propose(std::span<DraftQuery> queries) {
  for (DraftQuery& query : queries) propose(query);
}

// The automaton of the request, up to date; null: there is no memory for it.
const SuffixAutomaton* SuffixDrafter::automaton_of(const Request& request) {
  const std::span<const TokenId> prediction =
      request.params == nullptr ? std::span<const TokenId>() : request.params->prediction_token_ids;
  const int32_t num_before = num_tokens_before(request);
  auto it = automata_.find(request.id);
  if (it == automata_.end()) {
    constexpr int64_t kExpectedBytesPerToken = 150;
    const int64_t expected = kExpectedBytesPerToken * (num_before + request.num_tokens());
    if (memory_bytes_ + expected > options_.max_memory_bytes) return nullptr;
    it = automata_.try_emplace(request.id).first;
    memory_bytes_ += it->second.memory_bytes();
    for (const TokenId id : prediction) it->second.append(id);
    if (num_before > 0) it->second.append(kEndOfPrediction);
  }
  SuffixAutomaton& automaton = it->second;
  memory_bytes_ -= automaton.memory_bytes();
  for (int32_t i = automaton.num_tokens() - num_before; i < request.num_tokens(); ++i)
    automaton.append(request.token_ids[static_cast<size_t>(i)]);
  memory_bytes_ += automaton.memory_bytes();
  return &automaton;
}

void SuffixDrafter::propose(DraftQuery& query) {
  const SuffixAutomaton* automaton = automaton_of(*query.request);
  if (automaton == nullptr) return;
  const SuffixAutomaton::Match match = automaton->longest_match();
  const int32_t num_before = num_tokens_before(*query.request);
  query.draft_class.from_prediction = match.end < num_before;
  const int32_t end = query.draft_class.from_prediction ? num_before - 1 : automaton->num_tokens();
  const auto most = static_cast<int64_t>(options_.max_spec_factor * match.length);
  const int64_t count = std::min<int64_t>({query.max_drafts, most, end - match.end});
  if (count <= 0) return;
  query.token_ids =
      automaton->text().subspan(static_cast<size_t>(match.end), static_cast<size_t>(count));
  set_match(query, match.length);
}

void SuffixDrafter::forget(RequestId id) {
  const auto it = automata_.find(id);
  if (it == automata_.end()) return;
  memory_bytes_ -= it->second.memory_bytes();
  automata_.erase(it);
}

}  // namespace quire
