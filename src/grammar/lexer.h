// Lexer is the deterministic automaton over a set of terminals. States are made when they are first
// reached.
//
// Beyond a limit, its own or one of its expressions', the lexer fails (status()), and until
// begin_work() it makes no states: it returns kDead, or a wrong mask, and keeps neither.
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

// A LexEntry is a terminal that is partly read, as the rest that must follow, and the rule state
// behind it.
struct LexEntry {
  ExprId expr = 0;
  StateId target = 0;
  friend auto operator<=>(const LexEntry&, const LexEntry&) = default;
};

class Lexer {
 public:
  static constexpr LexId kDead = 0;

  Lexer(ExprStore& store, size_t max_states);

  // Returns the state of `entries`. Entries with the same target are alternatives of one terminal.
  LexId intern(std::vector<LexEntry> entries);
  LexId step(LexId state, uint8_t byte) {
    if (states_[state].row == kNoRow) add_row(state);
    const LexId next = rows_[states_[state].row][byte];
    return next != kUnknown ? next : find_next(state, byte);
  }
  // Returns the rule states behind those terminals that may end in this state.
  std::span<const StateId> ends(LexId state) const { return states_[state].ends; }
  // Returns the tokens that can continue the state's terminals, and the places where these may end.
  std::shared_ptr<const TokenMask> mask(LexId state, const Vocabulary& vocabulary);
  // Returns the entries in the order that the positions in mask(state)->end_sets count.
  std::span<const LexEntry> entries(LexId state) const { return states_[state].entries; }

  size_t num_states() const { return states_.size(); }
  size_t memory_bytes() const {
    return states_.size() * sizeof(State) + rows_.size() * sizeof(Row);
  }
  // Begins a piece of work, such as a mask. Sets the number of trie nodes that its walks over the
  // vocabulary may visit together before the lexer fails. Earlier work that failed does not matter
  // any more. The expressions' begin_work() must be called too.
  void begin_work(size_t max_steps) {
    max_steps_ = steps_left_ = max_steps;
    status_ = {};
  }
  const Status& status() const { return status_; }

 private:
  static constexpr uint32_t kNoRow = ~uint32_t{0};
  static constexpr LexId kUnknown = ~LexId{0};
  using Row = std::array<LexId, 256>;
  struct State {
    std::vector<LexEntry> entries;  // in the order of their expressions' hashes
    std::vector<StateId> ends;
    Hash128 mask_key;
    uint32_t row = kNoRow;
    // The state that most characters lead to, as far as it is known, and these characters.
    LexId usual_next = kDead;
    AsciiSet usual;
    size_t num_usual = 0;
    void note(const Row& row, LexId next);
  };
  void add_row(LexId state);
  // Returns the state that `byte` leads to, and stores it for all bytes that lead there. Most
  // states of a walk see few bytes, so the successors of other bytes are not computed.
  LexId find_next(LexId state, uint8_t byte);
  LexId successor(LexId state, uint8_t byte);
  std::optional<LexId> reference(LexId state);
  // Returns the mask that all states in which any text may precede a quote have in common: searches
  // for different patterns in a string differ in few tokens.
  std::shared_ptr<const TokenMask> text_mask(LexId state, const Vocabulary& vocabulary);
  TokenMask walk_text(LexId text, const Vocabulary& vocabulary);
  // Returns a state that no token can distinguish from `state`, with one value for all counts that
  // are too large for a token to use up; kDead if there is none.
  LexId without_long_counts(LexId state);
  // Two states of one terminal each: the texts of `lower` are a subset of this state's, those of
  // `upper` a superset.
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
  // Returns whether tokens at and below a trie node read only usual characters of `state`, and no
  // terminal may end before the last character. Then all these tokens are allowed, and none has to
  // be tried.
  bool is_usual_below(LexId state, uint32_t trie_node, const Vocabulary& vocabulary) const;
  // Walks the trie with `state`. Below a node where it is in the same state as `reference` would
  // be, the mask of `reference` (`known`) applies.
  TokenMask walk(LexId state, const Vocabulary& vocabulary, LexId reference,
                 const TokenMask& known);

  ExprStore& store_;
  size_t max_states_;
  Status status_;
  size_t max_steps_ = ~size_t{0}, steps_left_ = ~size_t{0};
  std::vector<State> states_;
  std::vector<Row> rows_;
  std::unordered_map<Hash128, LexId, Hash128Hasher> ids_;
};

}  // namespace quire::grammar
