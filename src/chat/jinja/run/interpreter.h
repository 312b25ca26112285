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
  // `now` is the time that strftime_now() prints. `source` must outlive the interpreter.
  Interpreter(const Template& source, const RunLimits& limits, const std::tm& now)
      : state_(source, limits),
        evaluator_(state_, calls_, loops_),
        calls_(state_, now, evaluator_, loops_, statements_),
        loops_(state_, evaluator_, statements_),
        statements_(state_, evaluator_, calls_, loops_) {}
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Throws an Error.
  std::string run(const boost::json::object& context);

 private:
  RunState state_;
  // Expressions contain calls, calls run statements, and statements contain expressions, so these
  // objects refer to each other.
  Evaluator evaluator_;
  Calls calls_;
  Loops loops_;
  Statements statements_;
};

}  // namespace quire::jinja
