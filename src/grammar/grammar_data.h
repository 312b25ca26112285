// These are the structures that compile() makes and Matcher reads.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "grammar/grammar.h"
#include "grammar/lexer.h"
#include "grammar/rules/rules.h"

namespace quire::grammar {

// A Closure is what can follow a rule state without reading a byte, for one count of its call.
struct Closure {
  struct Call {
    RuleId rule = 0;
    StateId return_state = 0;
  };
  struct Counted {  // continues in the same call with another count
    StateId state = 0;
    Count count = 0;
  };
  LexId lexer_state = Lexer::kDead;  // the terminals that can come next
  bool is_end = false;               // whether the rule can end here
  std::vector<Call> calls;
  std::vector<Counted> counted;
};

struct Grammar {
  explicit Grammar(const GrammarLimits& limits);

  // Returns the closure, computed on first use, valid until the next call.
  const Closure& closure(StateId state, Count count);

  GrammarLimits limits;
  uint64_t serial = 0;  // unique in the process
  // Whether half of a limit of size is used, so that later requests should compile a new grammar.
  std::atomic<bool> crowded{false};
  mutable std::mutex mutex;  // guards everything that grows while matchers work: all but `rules`
  ExprStore store;
  Rules rules;
  Lexer lexer;

 private:
  Closure make_closure(StateId state, Count count);
  std::unordered_map<Hash128, Closure, Hash128Hasher> closures_;
  Closure cut_short_;  // by a limit, so it is not kept in closures_
};

}  // namespace quire::grammar
