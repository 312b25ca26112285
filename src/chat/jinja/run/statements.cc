#include "chat/jinja/run/statements.h"

#include <utility>

#include "chat/jinja/run/calls.h"
#include "chat/jinja/run/evaluator.h"
#include "chat/jinja/run/loops.h"
#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {

Flow Statements::execute(const Body& body) {
  for (const auto& stmt : body) {
    const Flow flow = execute(*stmt);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Flow Statements::execute(const Stmt& stmt) {
  const DepthGuard guard(state_);
  try {
    switch (stmt.kind) {
      case StmtKind::kText:
        state_.output.write(stmt.text);
        break;
      case StmtKind::kPrint:
        state_.output.print(evaluator_.evaluate(*stmt.expr));
        break;
      case StmtKind::kFor:
        execute_for(stmt);
        break;
      case StmtKind::kIf:
        return execute_if(stmt);
      case StmtKind::kSet:
        execute_set(stmt);
        break;
      case StmtKind::kSetBlock:
        return execute_set_block(stmt);
      case StmtKind::kMacro:
        state_.variables.set(stmt.symbol, calls_.make_macro(*stmt.macro));
        break;
      case StmtKind::kCallBlock:
        execute_call_block(stmt);
        break;
      case StmtKind::kFilterBlock:
        return execute_filter_block(stmt);
      case StmtKind::kWith:
        return execute_with(stmt);
      case StmtKind::kScope:
        return execute_scope(stmt);
      case StmtKind::kBreak:
        return Flow::kBreak;
      case StmtKind::kContinue:
        return Flow::kContinue;
      case StmtKind::kUnsupported:
        fail("{}", stmt.text);
    }
  } catch (Error& error) {
    if (error.line == 0) error.line = stmt.line;
    throw;
  }
  return Flow::kNormal;
}

Flow Statements::execute_if(const Stmt& stmt) {
  for (const auto& [test, body] : stmt.branches) {
    if (is_true(evaluator_.evaluate(*test))) return execute(body);
  }
  return execute(stmt.else_body);
}

void Statements::execute_set(const Stmt& stmt) {
  state_.variables.check_namespaces(*stmt.target);
  state_.variables.assign(*stmt.target, evaluator_.evaluate(*stmt.expr));
}

Flow Statements::execute_set_block(const Stmt& stmt) {
  state_.variables.check_namespaces(*stmt.target);
  Output::Capture capture(state_.output);
  {
    const Variables::ScopeGuard scope(state_.variables);
    const Flow flow = execute(stmt.body);
    if (flow != Flow::kNormal) return flow;
  }
  Value value = make_string(heap_, capture.end());
  if (stmt.expr != nullptr) value = evaluator_.evaluate_filter(*stmt.expr, &value);
  state_.variables.assign(*stmt.target, std::move(value));
  return Flow::kNormal;
}

Flow Statements::execute_filter_block(const Stmt& stmt) {
  Output::Capture capture(state_.output);
  const Variables::ScopeGuard scope(state_.variables);
  const Flow flow = execute(stmt.body);
  if (flow != Flow::kNormal) return flow;
  const Value input = make_string(heap_, capture.end());
  state_.output.print(evaluator_.evaluate_filter(*stmt.expr, &input));
  return Flow::kNormal;
}

void Statements::execute_call_block(const Stmt& stmt) {
  Arguments arguments = evaluator_.evaluate_arguments(*stmt.expr->call);
  for (const auto& [name, value] : arguments.named) {
    if (name == "caller") fail("a call block cannot be given another caller");
  }
  const Value callee = evaluator_.evaluate(*stmt.expr->children[0]);
  arguments.named.emplace_back("caller", calls_.make_macro(*stmt.macro));
  state_.output.print(calls_.call(callee, std::move(arguments)));
}

Flow Statements::execute_with(const Stmt& stmt) {
  std::vector<Value> values;
  for (const auto& [target, expr] : stmt.bindings) values.push_back(evaluator_.evaluate(*expr));
  const Variables::ScopeGuard scope(state_.variables);
  for (size_t i = 0; i < values.size(); ++i)
    state_.variables.assign(*stmt.bindings[i].first, values[i]);
  return execute(stmt.body);
}

Flow Statements::execute_scope(const Stmt& stmt) {
  const Variables::ScopeGuard scope(
      state_.variables, stmt.is_isolated ? state_.variables.root() : state_.variables.scope());
  return execute(stmt.body);
}

void Statements::execute_for(const Stmt& stmt) {
  const Value iterable = evaluator_.evaluate(*stmt.expr);
  if (!is_iterable(iterable)) fail("'{}' object is not iterable", type_name(iterable));
  loops_.run(stmt, items_of(heap_, iterable));
}

}  // namespace quire::jinja
