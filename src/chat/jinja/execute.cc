// Statements, variables and loops are executed here.
#include <algorithm>
#include <utility>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/print.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {

Interpreter::Interpreter(const Template& source, const RunLimits& limits, const std::tm& now)
    : template_(source),
      limits_(limits),
      now_(now),
      heap_(limits.max_steps, limits.max_bytes),
      root_(std::make_shared<Scope>()),
      scope_(root_),
      root_values_(source.symbols.size()),
      has_root_value_(source.symbols.size()) {
  const auto symbol = [&](std::string_view name) {
    const auto it = source.symbol_of.find(name);
    return it == source.symbol_of.end() ? -1 : it->second;
  };
  loop_symbol_ = symbol("loop");
  caller_symbol_ = symbol("caller");
  varargs_symbol_ = symbol("varargs");
  kwargs_symbol_ = symbol("kwargs");
}

Interpreter::~Interpreter() {
  // Nodes that may hold themselves, or form chains too long to destroy by recursion, are emptied
  // while all of them are still held here.
  for (const std::shared_ptr<Node>& node : cyclic_) {
    if (auto* space = dynamic_cast<NamespaceNode*>(node.get())) space->attributes.clear();
    if (auto* macro = dynamic_cast<MacroNode*>(node.get())) macro->scope.reset();
    if (auto* loop = dynamic_cast<LoopNode*>(node.get())) {
      loop->scope.reset();
      loop->source.clear();
      loop->accepted.clear();
      loop->last_changed.clear();
    }
  }
}

std::string Interpreter::run(const boost::json::object& context) {
  for (const auto& [name, json] : context) {
    const auto it = template_.symbol_of.find(std::string_view(name.data(), name.size()));
    if (it != template_.symbol_of.end()) set(it->second, from_json(json, 0));
  }
  execute(template_.body);
  return std::move(output_);
}

const Value* Interpreter::find(Symbol symbol) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    if (scope == root_.get()) break;
    const auto& variables = scope->variables;
    if (variables.size() > 16) heap_.tick(static_cast<int64_t>(variables.size() / 16));
    for (auto it = variables.rbegin(); it != variables.rend(); ++it) {
      if (it->first == symbol) return &it->second;
    }
  }
  const auto i = static_cast<size_t>(symbol);
  return has_root_value_[i] ? &root_values_[i] : nullptr;
}

void Interpreter::set(Symbol symbol, Value value) {
  const auto i = static_cast<size_t>(symbol);
  if (scope_ == root_) {
    root_values_[i] = std::move(value);
    has_root_value_[i] = true;
    return;
  }
  for (auto& [have, old] : scope_->variables) {
    if (have != symbol) continue;
    old = std::move(value);
    return;
  }
  heap_.tick(1 + static_cast<int64_t>(scope_->variables.size() / 16));
  scope_->variables.emplace_back(symbol, std::move(value));
}

void Interpreter::check_namespaces(const Expr& target) {
  for (const ExprPtr& item : target.children) check_namespaces(*item);
  if (target.kind != ExprKind::kNamespaceTarget) return;
  const Value* space = find(target.symbol);
  if (space == nullptr || !space->is(Kind::kNamespace)) {
    fail("cannot assign attribute on non-namespace object");
  }
  if (target.name.starts_with("_")) {
    fail("cannot store underscore-prefixed attributes on a namespace, got {}", quoted(target.name));
  }
}

void Interpreter::assign(const Expr& target, Value value) {
  if (target.kind == ExprKind::kName) return set(target.symbol, std::move(value));
  if (target.kind == ExprKind::kNamespaceTarget) {
    auto& attributes = find(target.symbol)->get<NamespaceNode>().attributes;
    for (auto& [name, old] : attributes) {
      heap_.tick();
      if (name != target.name) continue;
      old = std::move(value);
      return;
    }
    heap_.tick(16);
    find(target.symbol)->get<NamespaceNode>().charge(heap_, 128);
    attributes.emplace_back(target.name, std::move(value));
    return;
  }
  if (!is_iterable(value)) fail("cannot unpack non-iterable {} object", type_name(value));
  const std::vector<Value> items = items_of(heap_, value);
  const size_t wanted = target.children.size();
  if (items.size() < wanted) {
    fail("not enough values to unpack (expected {}, got {})", wanted, items.size());
  }
  if (items.size() > wanted) fail("too many values to unpack (expected {})", wanted);
  for (size_t i = 0; i < wanted; ++i) assign(*target.children[i], items[i]);
}

void Interpreter::write(std::string_view text) {
  if (capture_ != nullptr) return capture_->append(text);
  heap_.tick_bytes(text.size());
  if (text.size() > static_cast<uint64_t>(limits_.max_output_bytes) - output_.size()) {
    fail_limit("the rendered text exceeds {} bytes", limits_.max_output_bytes);
  }
  output_ += text;
}

void Interpreter::print(const Value& value) {
  if (value.is_string()) return write(value.text());
  write(to_str(heap_, value));
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const auto& stmt : body) {
    const Flow flow = execute(*stmt);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt) {
  const DepthGuard guard(*this);
  try {
    switch (stmt.kind) {
      case StmtKind::kText:
        write(stmt.text);
        break;
      case StmtKind::kPrint:
        print(evaluate(*stmt.expr));
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
        set(stmt.symbol, make_macro(*stmt.macro));
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

Interpreter::Flow Interpreter::execute_if(const Stmt& stmt) {
  for (const auto& [test, body] : stmt.branches) {
    if (is_true(evaluate(*test))) return execute(body);
  }
  return execute(stmt.else_body);
}

void Interpreter::execute_set(const Stmt& stmt) {
  check_namespaces(*stmt.target);
  assign(*stmt.target, evaluate(*stmt.expr));
}

Interpreter::Flow Interpreter::execute_set_block(const Stmt& stmt) {
  check_namespaces(*stmt.target);
  Buffer buffer(heap_);
  {
    const ScopeGuard scope(*this);
    Buffer* const saved = std::exchange(capture_, &buffer);
    Flow flow = Flow::kNormal;
    try {
      flow = execute(stmt.body);
    } catch (...) {
      capture_ = saved;
      throw;
    }
    capture_ = saved;
    if (flow != Flow::kNormal) return flow;
  }
  Value value = make_string(heap_, buffer.text());
  if (stmt.expr != nullptr) value = evaluate_filter(*stmt.expr, &value);
  assign(*stmt.target, std::move(value));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute_filter_block(const Stmt& stmt) {
  Buffer buffer(heap_);
  const ScopeGuard scope(*this);
  Buffer* const saved = std::exchange(capture_, &buffer);
  Flow flow = Flow::kNormal;
  try {
    flow = execute(stmt.body);
  } catch (...) {
    capture_ = saved;
    throw;
  }
  capture_ = saved;
  if (flow != Flow::kNormal) return flow;
  const Value input = make_string(heap_, buffer.text());
  print(evaluate_filter(*stmt.expr, &input));
  return Flow::kNormal;
}

void Interpreter::execute_call_block(const Stmt& stmt) {
  Arguments arguments = evaluate_arguments(*stmt.expr->call);
  for (const auto& [name, value] : arguments.named) {
    if (name == "caller") fail("a call block cannot be given another caller");
  }
  const Value callee = evaluate(*stmt.expr->children[0]);
  arguments.named.emplace_back("caller", make_macro(*stmt.macro));
  print(call(callee, std::move(arguments)));
}

Interpreter::Flow Interpreter::execute_with(const Stmt& stmt) {
  std::vector<Value> values;
  for (const auto& [target, expr] : stmt.bindings) values.push_back(evaluate(*expr));
  const ScopeGuard scope(*this);
  for (size_t i = 0; i < values.size(); ++i) assign(*stmt.bindings[i].first, values[i]);
  return execute(stmt.body);
}

Interpreter::Flow Interpreter::execute_scope(const Stmt& stmt) {
  const ScopeGuard scope(*this, stmt.is_isolated ? root_ : scope_);
  return execute(stmt.body);
}

void Interpreter::execute_for(const Stmt& stmt) {
  const Value iterable = evaluate(*stmt.expr);
  if (!is_iterable(iterable)) fail("'{}' object is not iterable", type_name(iterable));
  run_loop(stmt, items_of(heap_, iterable), 0);
}

// Moves the next item that passes the loop's condition to `accepted`; false when none is left.
bool Interpreter::accept_next(LoopNode& loop) {
  while (loop.source_position < loop.source.size()) {
    const Value& item = loop.source[loop.source_position++];
    const ScopeGuard scope(*this, loop.scope);
    assign(*loop.statement->target, item);
    if (!is_true(evaluate(*loop.statement->test))) continue;
    loop.accepted.push_back(item);
    return true;
  }
  return false;
}

bool Interpreter::iterate(const std::shared_ptr<LoopNode>& loop) {
  const Stmt& stmt = *loop->statement;
  bool completed = false;
  while (loop->index0 + 1 < static_cast<int64_t>(loop->accepted.size()) || accept_next(*loop)) {
    heap_.tick();
    ++loop->index0;
    const ScopeGuard scope(*this, loop->scope);
    if (stmt.uses_loop && loop_symbol_ >= 0) set(loop_symbol_, Value::node(Kind::kLoop, loop));
    assign(*stmt.target, loop->accepted[static_cast<size_t>(loop->index0)]);
    const Flow flow = execute(stmt.body);
    if (flow == Flow::kBreak) break;
    // As in Jinja, an iteration that continue cut short does not count for the else branch.
    if (flow == Flow::kNormal) completed = true;
  }
  return completed;
}

void Interpreter::run_loop(const Stmt& stmt, std::vector<Value> items, int64_t depth0) {
  auto loop = std::make_shared<LoopNode>();
  loop->charge(heap_, 256 + static_cast<int64_t>(items.size() * sizeof(Value)));
  loop->statement = &stmt;
  loop->scope = scope_;
  loop->depth0 = depth0;
  (stmt.test != nullptr ? loop->source : loop->accepted) = std::move(items);
  const auto keep_if_escaped = [&] {
    if (loop.use_count() > 1) cyclic_.push_back(loop);
  };
  bool completed = false;
  try {
    completed = iterate(loop);
  } catch (...) {
    keep_if_escaped();
    throw;
  }
  keep_if_escaped();
  if (completed || stmt.else_body.empty()) return;
  const ScopeGuard scope(*this);
  execute(stmt.else_body);
}

}  // namespace quire::jinja
