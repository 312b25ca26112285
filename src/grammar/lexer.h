// Lexer is the deterministic automaton over a set of terminals. States are made when they are first
// reached.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/rules/expr.h"
#include "grammar/rules/rules.h"
#include "grammar/vocabulary.h"

namespace quire::grammar {

using LexId = uint32_t;

// A terminal under way and the rule state it leads to.
struct LexEntry {
  ExprId expr = 0;
  StateId target = 0;
  friend auto operator<=>(const LexEntry&, const LexEntry&) = default;
};

class Lexer {
 public:
  static constexpr LexId kDead = 0;

  Lexer(ExprStore& store, size_t max_states);

  // The state of `entries`; those with one target are alternatives of one terminal.
  LexId intern(std::vector<LexEntry> entries);
  LexId step(LexId state, uint8_t byte) {
    if (states_[state].row == kNoRow) add_row(state);
    const LexId next = rows_[states_[state].row][byte];
    return next != kUnknown ? next : find_next(state, byte);
  }
  // Where the terminals lead that may end in this state.
  std::span<const StateId> ends(LexId state) const { return states_[state].ends; }
  // Returns the tokens that stay alive within the state's terminals, and where these may end.
  std::shared_ptr<const TokenMask> mask(LexId state, const Vocabulary& vocabulary);
  // Of mask(state)->end_sets: positions are those in this order.
  std::span<const LexEntry> entries(LexId state) const { return states_[state].entries; }

  size_t num_states() const { return states_.size(); }
  size_t memory_bytes() const {
    return states_.size() * sizeof(State) + rows_.size() * sizeof(Row);
  }
  // From here on, walks over the vocabulary's trie that visit more than `count` nodes in all fail
  // the lexer.
  void limit_steps(size_t count) { steps_left_ = count; }
  Status status() const { return status_; }

 private:
  static constexpr uint32_t kNoRow = ~uint32_t{0};
  static constexpr LexId kUnknown = ~LexId{0};
  using Row = std::array<LexId, 256>;
  struct State {
    std::vector<LexEntry> entries;  // in the order of their expressions' hashes
    std::vector<StateId> ends;
    Hash128 mask_key;
    uint32_t row = kNoRow;
    // What most characters lead to, as far as it is known, and which do.
    LexId usual_next = kDead;
    AsciiSet usual;
    size_t num_usual = 0;
    void note(const Row& row, LexId next);
  };
  void add_row(LexId state);
  // For all bytes that lead to the same state as `byte`. Most states of a walk see few bytes, so
  // what others lead to is not looked for.
  LexId find_next(LexId state, uint8_t byte);
  LexId successor(LexId state, uint8_t byte);
  std::optional<LexId> reference(LexId state);
  // What is common to all states in which any text may come before a quote: searches for a pattern
  // in a string differ in few tokens.
  std::shared_ptr<const TokenMask> text_mask(LexId state, const Vocabulary& vocabulary);
  TokenMask walk_text(LexId text, const Vocabulary& vocabulary);
  // Returns a state that no token can tell from `state`, without the counts that no token is long
  // enough to use up: one state for all such counts. kDead: there is none.
  LexId without_long_counts(LexId state);
  // Two states of one terminal each, whose texts are a part of this state's and more than them.
  struct Bounds {
    LexId lower = kDead, upper = kDead;
  };
  std::optional<Bounds> bounds(LexId state);
  std::shared_ptr<const TokenMask> common_mask(const Bounds& bounds, const Vocabulary& vocabulary);
  TokenMask walk_between(const Bounds& bounds, const Vocabulary& vocabulary);
  TokenMask complete(const TokenMask& common, LexId state, const Vocabulary& vocabulary);
  bool spend_step() {
    if (steps_left_ == 0) return out_of_steps();
    --steps_left_;
    return status_.ok();
  }
  bool out_of_steps();
  // Whether `state` is left, at a trie node and below it, by its usual characters alone, and no
  // terminal may end before the last: all tokens there are allowed, and nothing has to be tried.
  bool is_usual_below(LexId state, uint32_t trie_node, const Vocabulary& vocabulary) const;
  // Walks the trie with `state`; below nodes at which it is in the same state as `reference` would
  // be, the reference's mask holds.
  TokenMask walk(LexId state, const Vocabulary& vocabulary, LexId reference,
                 const TokenMask& known);

  ExprStore& store_;
  size_t max_states_;
  Status status_;
  size_t steps_left_ = ~size_t{0};
  std::vector<State> states_;
  std::vector<Row> rows_;
  std::unordered_map<Hash128, LexId, Hash128Hasher> ids_;
};

}  // namespace quire::grammar
