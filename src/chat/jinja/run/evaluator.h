// An Evaluator evaluates expressions.
#pragma once

#include "chat/jinja/parse/ast.h"
#include "chat/jinja/run/run_state.h"
#include "chat/jinja/value/arguments.h"
#include "chat/jinja/value/value.h"

namespace quire::jinja {

class Calls;
class Loops;

class Evaluator {
 public:
  // The arguments must outlive this object.
  Evaluator(RunState& state, Calls& calls, Loops& loops)
      : state_(state), heap_(state.heap), calls_(calls), loops_(loops) {}

  Value evaluate(const Expr& expr);
  // `block_input` is the input of the innermost filter in a filter or set block.
  Value evaluate_filter(const Expr& expr, const Value* block_input);
  Arguments evaluate_arguments(const CallSite& call);

 private:
  Value evaluate_inner(const Expr& expr);
  Value evaluate_name(const Expr& expr);
  Value evaluate_attribute(const Expr& expr);
  Value evaluate_item(const Expr& expr);
  Value evaluate_slice(const Expr& expr);
  Value evaluate_call(const Expr& expr);
  Value evaluate_test(const Expr& expr);
  Value evaluate_logic(const Expr& expr);
  Value evaluate_binary(const Expr& expr);
  Value evaluate_concat(const Expr& expr);
  Value evaluate_compare(const Expr& expr);
  Value evaluate_conditional(const Expr& expr);
  Value evaluate_collection(const Expr& expr);

  RunState& state_;
  Heap& heap_;
  Calls& calls_;
  Loops& loops_;
};

}  // namespace quire::jinja
