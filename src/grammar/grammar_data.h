// What compile() makes and Matcher reads.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "grammar/grammar.h"
#include "grammar/lexer.h"
#include "grammar/rules/rules.h"

namespace quire::grammar {

// What a rule state leads to before any further byte, for one count of its call.
struct Closure {
  struct Call {
    RuleId rule = 0;
    StateId return_state = 0;
  };
  struct Counted {  // goes on in the same call with another count
    StateId state = 0;
    Count count = 0;
  };
  LexId lexer_state = Lexer::kDead;  // of the terminals that can come next
  bool is_end = false;               // the rule can end here
  std::vector<Call> calls;
  std::vector<Counted> counted;
};

struct Grammar {
  explicit Grammar(const GrammarLimits& limits);

  // Made on first use.
  const Closure& closure(StateId state, Count count);

  GrammarLimits limits;
  uint64_t serial = 0;  // unlike any other grammar's of the process
  // Half of what it may grow to is used: requests to come are better off with a new one.
  std::atomic<bool> crowded{false};
  mutable std::mutex mutex;  // guards all that grows while matchers work: everything but `rules`
  ExprStore store;
  Rules rules;
  Lexer lexer;

 private:
  Closure make_closure(StateId state, Count count);
  std::unordered_map<Hash128, Closure, Hash128Hasher> closures_;
};

}  // namespace quire::grammar
