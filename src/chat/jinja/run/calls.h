// Makes calls: of macros, the environment's functions, methods, and the loop object.
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
  // Borrows all but `now`, which strftime_now() shows.
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
