// Loops runs loops and answers what a template asks of the loop around it.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "chat/jinja/parse/ast.h"
#include "chat/jinja/run/run_state.h"
#include "chat/jinja/value/arguments.h"
#include "chat/jinja/value/value.h"

namespace quire::jinja {

class Evaluator;
class Statements;

class Loops {
 public:
  // The arguments must outlive this object.
  Loops(RunState& state, Evaluator& evaluator, Statements& statements);

  void run(const Stmt& stmt, std::vector<Value> items, int64_t depth0 = 0);
  // These serve the `loop` variable: its attributes, its methods, and calls of the loop itself when
  // it is recursive.
  Value attribute(const Value& self, std::string_view name);
  Value call_method(const Value& self, std::string_view name, const Arguments& arguments);
  Value call(const Value& callee, const Arguments& arguments);

 private:
  bool iterate(const std::shared_ptr<LoopNode>& loop);  // true: an iteration ran to its end
  bool accept_next(LoopNode& loop);

  RunState& state_;
  Heap& heap_;
  Evaluator& evaluator_;
  Statements& statements_;
  const Symbol loop_symbol_;
};

}  // namespace quire::jinja
