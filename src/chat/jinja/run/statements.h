// Statements runs the statements of a template.
#pragma once

#include <cstdint>

#include "chat/jinja/parse/ast.h"
#include "chat/jinja/run/run_state.h"

namespace quire::jinja {

class Calls;
class Evaluator;
class Loops;

enum class Flow : uint8_t { kNormal, kBreak, kContinue };

class Statements {
 public:
  // The arguments must outlive this object.
  Statements(RunState& state, Evaluator& evaluator, Calls& calls, Loops& loops)
      : state_(state), heap_(state.heap), evaluator_(evaluator), calls_(calls), loops_(loops) {}

  Flow execute(const Body& body);

 private:
  Flow execute(const Stmt& stmt);
  Flow execute_if(const Stmt& stmt);
  void execute_for(const Stmt& stmt);
  Flow execute_scope(const Stmt& stmt);
  Flow execute_with(const Stmt& stmt);
  Flow execute_set_block(const Stmt& stmt);
  Flow execute_filter_block(const Stmt& stmt);
  void execute_set(const Stmt& stmt);
  void execute_call_block(const Stmt& stmt);

  RunState& state_;
  Heap& heap_;
  Evaluator& evaluator_;
  Calls& calls_;
  Loops& loops_;
};

}  // namespace quire::jinja
