// An interpreter runs a parsed template over a context. It renders once, on one thread.
#pragma once

#include <boost/json/object.hpp>
#include <ctime>
#include <string>

#include "chat/jinja/parse/ast.h"
#include "chat/jinja/run/calls.h"
#include "chat/jinja/run/evaluator.h"
#include "chat/jinja/run/loops.h"
#include "chat/jinja/run/run_state.h"
#include "chat/jinja/run/statements.h"

namespace quire::jinja {

class Interpreter {
 public:
  // `now` is what strftime_now() shows. `source` outlives the interpreter.
  Interpreter(const Template& source, const RunLimits& limits, const std::tm& now)
      : state_(source, limits),
        evaluator_(state_, calls_, loops_),
        calls_(state_, now, evaluator_, loops_, statements_),
        loops_(state_, evaluator_, statements_),
        statements_(state_, evaluator_, calls_, loops_) {}
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Throws Error.
  std::string run(const boost::json::object& context);

 private:
  RunState state_;
  // Expressions call, calls execute, statements evaluate: each knows the others.
  Evaluator evaluator_;
  Calls calls_;
  Loops loops_;
  Statements statements_;
};

}  // namespace quire::jinja
