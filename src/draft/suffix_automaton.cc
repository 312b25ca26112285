#include "draft/suffix_automaton.h"

namespace quire {
namespace {

// The number of states whose latest occurrence is updated for each token: those of the longest ends
// of the text. Shorter ends are looked up only if the longer ones have not occurred before, and
// then an older occurrence will do.
constexpr int32_t kUpdatedStates = 8;

}  // namespace

SuffixAutomaton::SuffixAutomaton() : states_(1), slots_(64, -1) {}

int64_t SuffixAutomaton::memory_bytes() const {
  return static_cast<int64_t>(
      text_.capacity() * sizeof(TokenId) + states_.capacity() * sizeof(State) +
      edges_.capacity() * sizeof(Edge) + slots_.capacity() * sizeof(int32_t));
}

int32_t SuffixAutomaton::add_state(const State& state) {
  states_.push_back(state);
  return static_cast<int32_t>(states_.size()) - 1;
}

size_t SuffixAutomaton::slot_of(int32_t from, TokenId token_id) const {
  const uint64_t key =
      uint64_t{static_cast<uint32_t>(from)} << 32 | static_cast<uint32_t>(token_id);
  return (key * 0x9E3779B97F4A7C15u >> 32) & (slots_.size() - 1);
}

int32_t SuffixAutomaton::find_edge(int32_t from, TokenId token_id) const {
  for (size_t slot = slot_of(from, token_id); slots_[slot] >= 0;
       slot = (slot + 1) & (slots_.size() - 1)) {
    const Edge& edge = edges_[static_cast<size_t>(slots_[slot])];
    if (edge.from == from && edge.token_id == token_id) return slots_[slot];
  }
  return -1;
}

void SuffixAutomaton::add_edge(int32_t from, TokenId token_id, int32_t to) {
  if (2 * (edges_.size() + 1) > slots_.size()) rehash(2 * slots_.size());
  size_t slot = slot_of(from, token_id);
  while (slots_[slot] >= 0) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = static_cast<int32_t>(edges_.size());
  State& state = states_[static_cast<size_t>(from)];
  edges_.push_back({.from = from, .token_id = token_id, .to = to, .next = state.first_edge});
  state.first_edge = slots_[slot];
}

void SuffixAutomaton::rehash(size_t num_slots) {
  slots_.assign(num_slots, -1);
  for (size_t i = 0; i < edges_.size(); ++i) {
    size_t slot = slot_of(edges_[i].from, edges_[i].token_id);
    while (slots_[slot] >= 0) slot = (slot + 1) & (num_slots - 1);
    slots_[slot] = static_cast<int32_t>(i);
  }
}

// Gives the substrings that reach the edge's end through `from` a state of their own, with the same
// continuations, and returns it.
int32_t SuffixAutomaton::split(int32_t from, int32_t edge) {
  const TokenId token_id = edges_[static_cast<size_t>(edge)].token_id;
  const int32_t whole = edges_[static_cast<size_t>(edge)].to;
  State copy = states_[static_cast<size_t>(whole)];
  copy.length = states_[static_cast<size_t>(from)].length + 1;
  copy.first_edge = -1;
  const int32_t part = add_state(copy);
  for (int32_t e = states_[static_cast<size_t>(whole)].first_edge; e >= 0;) {
    const Edge continuation = edges_[static_cast<size_t>(e)];
    add_edge(part, continuation.token_id, continuation.to);
    e = continuation.next;
  }
  states_[static_cast<size_t>(whole)].link = part;
  for (int32_t p = from; p >= 0; p = states_[static_cast<size_t>(p)].link) {
    const int32_t e = find_edge(p, token_id);
    if (e < 0 || edges_[static_cast<size_t>(e)].to != whole) break;
    edges_[static_cast<size_t>(e)].to = part;
  }
  return part;
}

void SuffixAutomaton::append(TokenId token_id) {
  text_.push_back(token_id);
  const auto end = static_cast<int32_t>(text_.size());
  const int32_t added = add_state({.length = states_[static_cast<size_t>(last_)].length + 1});
  int32_t p = last_;
  int32_t edge = -1;
  for (; p >= 0; p = states_[static_cast<size_t>(p)].link) {
    edge = find_edge(p, token_id);
    if (edge >= 0) break;
    add_edge(p, token_id, added);
  }
  int32_t link = 0;
  if (p >= 0) {
    link = edges_[static_cast<size_t>(edge)].to;
    if (states_[static_cast<size_t>(link)].length != states_[static_cast<size_t>(p)].length + 1)
      link = split(p, edge);
  }
  states_[static_cast<size_t>(added)].link = link;
  last_ = added;
  int32_t state = added;
  for (int32_t i = 0; i < kUpdatedStates && state > 0; ++i) {
    State& s = states_[static_cast<size_t>(state)];
    s.before = s.last_end;
    s.last_end = end;
    state = s.link;
  }
}

void SuffixAutomaton::advance(Cursor& cursor, TokenId token_id) const {
  while (true) {
    const int32_t edge = find_edge(cursor.state, token_id);
    if (edge >= 0) {
      cursor.state = edges_[static_cast<size_t>(edge)].to;
      ++cursor.length;
      return;
    }
    if (cursor.state == 0) return;
    cursor.state = states_[static_cast<size_t>(cursor.state)].link;
    cursor.length = states_[static_cast<size_t>(cursor.state)].length;
  }
}

int32_t SuffixAutomaton::end_of(Cursor cursor) const {
  return states_[static_cast<size_t>(cursor.state)].last_end;
}

SuffixAutomaton::Match SuffixAutomaton::longest_match() const {
  const int32_t link = states_[static_cast<size_t>(last_)].link;
  if (link <= 0) return {};
  const State& state = states_[static_cast<size_t>(link)];
  const auto end = static_cast<int32_t>(text_.size());
  const int32_t earlier = state.last_end < end ? state.last_end : state.before;
  return {.length = state.length, .end = earlier};
}

}  // namespace quire
