#include "draft/suffix_drafter.h"

#include <algorithm>

#include "draft/match_source.h"

namespace quire {
namespace {

// Separates a prediction from the request's text. It is not a token, so that no match spans both.
constexpr TokenId kEndOfPrediction = -1;

// Returns the number of tokens of an automaton before the request's own.
int32_t num_tokens_before(const Request& request) {
  if (request.params == nullptr || request.params->prediction_token_ids.empty()) return 0;
  return static_cast<int32_t>(request.params->prediction_token_ids.size()) + 1;
}

}  // namespace

void SuffixDrafter::propose(std::span<DraftQuery> queries) {
  for (DraftQuery& query : queries) propose(query);
}

// Returns the request's automaton, brought up to date; null if there is no memory for it.
SuffixDrafter::Text* SuffixDrafter::text_of(const Request& request) {
  const std::span<const TokenId> prediction =
      request.params == nullptr ? std::span<const TokenId>() : request.params->prediction_token_ids;
  const int32_t num_before = num_tokens_before(request);
  auto it = texts_.find(request.id);
  if (it == texts_.end()) {
    constexpr int64_t kExpectedBytesPerToken = 150;
    const int64_t expected = kExpectedBytesPerToken * (num_before + request.num_tokens());
    if (memory_bytes_ + expected > options_.max_memory_bytes / 4 * 3) return nullptr;
    it = texts_.try_emplace(request.id).first;
    it->second.output_begin = num_before + request.num_prompt_tokens;
    it->second.salt = request.cache_keys.salt;
    memory_bytes_ += it->second.automaton.memory_bytes();
    for (const TokenId id : prediction) it->second.automaton.append(id);
    if (num_before > 0) it->second.automaton.append(kEndOfPrediction);
  }
  SuffixAutomaton& automaton = it->second.automaton;
  memory_bytes_ -= automaton.memory_bytes();
  for (int32_t i = automaton.num_tokens() - num_before; i < request.num_tokens(); ++i)
    automaton.append(request.token_ids[static_cast<size_t>(i)]);
  memory_bytes_ += automaton.memory_bytes();
  return &it->second;
}

void SuffixDrafter::propose(DraftQuery& query) {
  Text* const text = text_of(*query.request);
  if (text == nullptr) return;
  const SuffixAutomaton& automaton = text->automaton;
  const SuffixAutomaton::Match match = automaton.longest_match();
  const int32_t num_before = num_tokens_before(*query.request);
  const auto limit = [&](int32_t length, int64_t num_tokens) {
    const auto most = static_cast<int64_t>(options_.max_spec_factor * length);
    return static_cast<size_t>(std::min<int64_t>({query.max_drafts, most, num_tokens}));
  };
  const SharedSuffixes::Match shared =
      shared_.find(text->salt, query.request->token_ids, text->reader);
  if (shared.length > match.length && !shared.continuation.empty()) {
    query.token_ids =
        shared.continuation.first(limit(shared.length, std::ssize(shared.continuation)));
    set_match(query, shared.length, kSharedSource);
    return;
  }
  query.draft_class.from_prediction = match.end < num_before;
  const int32_t end = query.draft_class.from_prediction ? num_before - 1 : automaton.num_tokens();
  const size_t count = limit(match.length, end - match.end);
  if (count == 0) return;
  query.token_ids = automaton.text().subspan(static_cast<size_t>(match.end), count);
  set_match(query, match.length);
}

void SuffixDrafter::forget(RequestId id) {
  const auto it = texts_.find(id);
  if (it == texts_.end()) return;
  const Text& text = it->second;
  const std::span<const TokenId> all = text.automaton.text();
  shared_.add(text.salt, all.subspan(std::min(static_cast<size_t>(text.output_begin), all.size())));
  memory_bytes_ -= text.automaton.memory_bytes();
  texts_.erase(it);
}

}  // namespace quire
