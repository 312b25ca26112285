// Rules is a context-free grammar whose terminals are byte expressions. Each rule is an automaton
// that may call other rules (a recursive transition network).
//
//   Rules rules(store);
//   const RuleId list = rules.add_rule();
//   rules.define(list, rules.sequence({rules.terminal(store.byte('[')),
//                                      rules.optional(rules.call(list)),
//                                      rules.terminal(store.byte(']'))}));
//   QUIRE_RETURN_IF_ERROR(rules.finish(list));
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "grammar/rules/expr.h"

namespace quire::grammar {

using RuleId = uint32_t;
using StateId = uint32_t;

// The count of a rule's call: a number, or a set of bits.
using Count = uint64_t;
inline constexpr size_t kMaxMarks = 63;  // bits of a count that kMark may set

enum class EdgeKind : uint8_t {
  kEmpty,
  kTerminal,  // argument: ExprId
  kCall,      // argument: RuleId
  kGuard,     // passes if the call's count is in [min, max]
  kCount,     // passes like kGuard, and adds one to the count
  // These need a count that is a set of bits, of which [min, max] restricts the number:
  kMark,    // passes if bit `argument` is not set, and sets it
  kMarked,  // passes if all bits of `marks` are set
};

struct Edge {
  EdgeKind kind = EdgeKind::kEmpty;
  StateId target = 0;
  uint32_t argument = 0;
  uint32_t min = 0, max = kUnbounded;
  Count marks = 0;
};

// Returns the count behind a kMark or kMarked edge, or nullopt if the edge does not pass.
std::optional<Count> marked(const Edge& edge, Count count);

// A Fragment is a part of a rule's automaton. It may be joined to others only once.
struct Fragment {
  StateId start = 0;
  StateId end = 0;
};

class Rules {
 public:
  Rules(ExprStore& store, size_t max_states) : store_(store), max_states_(max_states) {}

  RuleId add_rule();
  void define(RuleId rule, Fragment body);

  Fragment empty();
  Fragment nothing();  // matches no text
  Fragment terminal(ExprId expr);
  Fragment call(RuleId rule);
  Fragment sequence(std::span<const Fragment> parts);
  Fragment sequence(std::initializer_list<Fragment> parts) {
    return sequence(std::span(parts.begin(), parts.size()));
  }
  Fragment any_of(std::span<const Fragment> parts);
  Fragment optional(Fragment part);
  Fragment star(Fragment part);
  // Makes a fragment that matches `part` min to max times, with `separator` between (kEmpty for
  // none). It calls a rule of its own, because the count is stored in the call and a rule can count
  // only one part.
  Fragment repeat(Fragment part, Fragment separator, uint32_t min, uint32_t max);

  // Adds a state to a rule that counts (repeat() does; objects count their members) or marks.
  StateId add_state();
  void add_edge(StateId from, const Edge& edge) { states_[from].push_back(edge); }
  // Sets the highest count of a call of `rule`; its guards must not distinguish higher counts. Use
  // kUnbounded if the rule marks.
  void set_count_cap(RuleId rule, uint32_t cap) { rules_[rule].count_cap = cap; }

  // Removes states from which no text can be completed, and prepares the rules for Matcher. Returns
  // an error if no text matches.
  Status finish(RuleId root);

  RuleId root() const { return root_; }
  StateId start(RuleId rule) const { return rules_[rule].start; }
  bool counts(RuleId rule) const { return rules_[rule].count_cap > 0; }
  uint32_t count_cap(RuleId rule) const { return rules_[rule].count_cap; }
  RuleId rule_of(StateId state) const { return rule_of_[state]; }
  bool is_final(StateId state) const { return is_final_[state]; }
  const std::vector<Edge>& edges(StateId state) const { return states_[state]; }
  // Returns the rule's group. Groups are numbered so that a rule's callers that can call it before
  // any byte have lower numbers; rules that call each other in this way share a group.
  uint32_t left_group(RuleId rule) const { return rules_[rule].left_group; }
  bool is_left_recursive(RuleId rule) const { return rules_[rule].is_left_recursive; }
  size_t num_states() const { return states_.size(); }
  size_t num_rules() const { return rules_.size(); }

 private:
  struct Rule {
    StateId start = 0, end = 0;
    uint32_t count_cap = 0;
    uint32_t left_group = 0;
    bool is_defined = false;
    bool is_nullable = false;
    bool is_left_recursive = false;
  };
  void assign_rules();
  void find_nullable_rules();
  bool reaches_end_without_bytes(const Rule& rule) const;
  void add_empty_edges();
  bool prune_unproductive();
  void replace_tail_calls();
  std::vector<RuleId> left_calls(RuleId rule) const;
  void group_left_calls();

  ExprStore& store_;
  size_t max_states_;
  RuleId root_ = 0;
  std::vector<Rule> rules_;
  std::vector<std::vector<Edge>> states_;
  std::vector<RuleId> rule_of_;
  std::vector<bool> is_final_;
};

}  // namespace quire::grammar
