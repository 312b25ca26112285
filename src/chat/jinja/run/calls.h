// Calls runs calls of macros, of the environment's functions, of methods, and of the loop object.
#pragma once

#include <ctime>

#include "chat/jinja/parse/ast.h"
#include "chat/jinja/run/functions.h"
#include "chat/jinja/run/run_state.h"
#include "chat/jinja/value/arguments.h"
#include "chat/jinja/value/value.h"

namespace quire::jinja {

class Evaluator;
class Loops;
class Statements;

class Calls {
 public:
  // All arguments but `now`, which strftime_now() prints, must outlive this object.
  Calls(RunState& state, const std::tm& now, Evaluator& evaluator, Loops& loops,
        Statements& statements);

  Value call(const Value& callee, Arguments arguments);
  Value make_macro(const MacroDef& definition);

 private:
  Value call_macro(const Value& callee, Arguments arguments);
  void bind_parameters(const MacroDef& macro, Arguments& arguments);
  void bind_special(const MacroDef& macro, Arguments& arguments);

  RunState& state_;
  Heap& heap_;
  Functions functions_;
  Evaluator& evaluator_;
  Loops& loops_;
  Statements& statements_;
  const Symbol caller_symbol_, varargs_symbol_, kwargs_symbol_;
};

}  // namespace quire::jinja
