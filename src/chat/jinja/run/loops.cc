#include "chat/jinja/run/loops.h"

#include <algorithm>
#include <utility>

#include "chat/jinja/library/methods.h"
#include "chat/jinja/run/evaluator.h"
#include "chat/jinja/run/statements.h"
#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {

Loops::Loops(RunState& state, Evaluator& evaluator, Statements& statements)
    : state_(state),
      heap_(state.heap),
      evaluator_(evaluator),
      statements_(statements),
      loop_symbol_(state.source.symbol("loop")) {}

// Moves the next item that passes the loop's condition to `accepted`. Returns false when there is
// none.
bool Loops::accept_next(LoopNode& loop) {
  while (loop.source_position < loop.source.size()) {
    const Value& item = loop.source[loop.source_position++];
    const Variables::ScopeGuard scope(state_.variables, loop.scope);
    state_.variables.assign(*loop.statement->target, item);
    if (!is_true(evaluator_.evaluate(*loop.statement->test))) continue;
    loop.accepted.push_back(item);
    return true;
  }
  return false;
}

bool Loops::iterate(const std::shared_ptr<LoopNode>& loop) {
  const Stmt& stmt = *loop->statement;
  bool completed = false;
  while (loop->index0 + 1 < static_cast<int64_t>(loop->accepted.size()) || accept_next(*loop)) {
    heap_.tick();
    ++loop->index0;
    const Variables::ScopeGuard scope(state_.variables, loop->scope);
    if (stmt.uses_loop && loop_symbol_ >= 0)
      state_.variables.set(loop_symbol_, Value::node(Kind::kLoop, loop));
    state_.variables.assign(*stmt.target, loop->accepted[static_cast<size_t>(loop->index0)]);
    const Flow flow = statements_.execute(stmt.body);
    if (flow == Flow::kBreak) break;
    // As in Jinja, an iteration that `continue` ended does not count for the else branch.
    if (flow == Flow::kNormal) completed = true;
  }
  return completed;
}

void Loops::run(const Stmt& stmt, std::vector<Value> items, int64_t depth0) {
  auto loop = std::make_shared<LoopNode>();
  loop->charge(heap_, 256 + static_cast<int64_t>(items.size() * sizeof(Value)));
  loop->statement = &stmt;
  loop->scope = state_.variables.scope();
  loop->depth0 = depth0;
  (stmt.test != nullptr ? loop->source : loop->accepted) = std::move(items);
  const auto keep_if_escaped = [&] {
    if (loop.use_count() > 1) state_.cyclic.keep(loop);
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
  const Variables::ScopeGuard scope(state_.variables);
  statements_.execute(stmt.else_body);
}

Value Loops::call(const Value& callee, const Arguments& arguments) {
  const auto& loop = callee.get<LoopNode>();
  if (!loop.statement->is_recursive) {
    fail("The loop must have the 'recursive' marker to be called recursively.");
  }
  const Bound bound("loop", arguments, {"iterable"}, 1);
  if (!is_iterable(bound[0])) fail("'{}' object is not iterable", type_name(bound[0]));
  Output::Capture capture(state_.output);
  const Variables::ScopeGuard scope(state_.variables, loop.scope);
  run(*loop.statement, items_of(heap_, bound[0]), loop.depth0 + 1);
  return make_string(heap_, capture.end());
}

Value Loops::call_method(const Value& self, std::string_view name, const Arguments& arguments) {
  auto& loop = self.get<LoopNode>();
  if (!arguments.named.empty()) fail("loop.{}() takes no keyword arguments", name);
  const std::vector<Value>& values = arguments.positional;
  if (name == "cycle") {
    if (values.empty()) fail("no items for cycling given");
    return values[static_cast<size_t>(loop.index0) % values.size()];
  }
  const bool same = loop.has_changed && loop.last_changed.size() == values.size() &&
                    std::equal(values.begin(), values.end(), loop.last_changed.begin(),
                               [&](const Value& a, const Value& b) { return equals(heap_, a, b); });
  if (same) return Value::boolean(false);
  loop.has_changed = true;
  loop.last_changed = values;
  return Value::boolean(true);
}

Value Loops::attribute(const Value& self, std::string_view name) {
  auto& loop = self.get<LoopNode>();
  const int64_t index0 = loop.index0;
  const auto has_next = [&] {
    return index0 + 1 < static_cast<int64_t>(loop.accepted.size()) || accept_next(loop);
  };
  const auto length = [&] {
    while (accept_next(loop)) {
    }
    return static_cast<int64_t>(loop.accepted.size());
  };
  if (name == "index") return Value::integer(index0 + 1);
  if (name == "index0") return Value::integer(index0);
  if (name == "first") return Value::boolean(index0 == 0);
  if (name == "last") return Value::boolean(!has_next());
  if (name == "length") return Value::integer(length());
  if (name == "revindex") return Value::integer(length() - index0);
  if (name == "revindex0") return Value::integer(length() - index0 - 1);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem") {
    if (index0 <= 0) return make_undefined(heap_, "there is no previous item");
    return loop.accepted[static_cast<size_t>(index0 - 1)];
  }
  if (name == "nextitem") {
    if (!has_next()) return make_undefined(heap_, "there is no next item");
    return loop.accepted[static_cast<size_t>(index0 + 1)];
  }
  if (name == "cycle" || name == "changed") return make_method(heap_, self, name);
  return undefined_attribute(heap_, self, name);
}

}  // namespace quire::jinja
