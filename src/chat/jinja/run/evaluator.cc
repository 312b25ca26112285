#include "chat/jinja/run/evaluator.h"

#include <utility>

#include "chat/jinja/library/filters.h"
#include "chat/jinja/library/methods.h"
#include "chat/jinja/run/calls.h"
#include "chat/jinja/run/loops.h"
#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/print.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {

Value Evaluator::evaluate(const Expr& expr) {
  const DepthGuard guard(state_);
  return evaluate_inner(expr);
}

// Each kind has a function of its own, so that the frames of the recursion stay small.
Value Evaluator::evaluate_inner(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kConstant:
      return expr.constant;
    case ExprKind::kName:
      return evaluate_name(expr);
    case ExprKind::kAttribute:
      return evaluate_attribute(expr);
    case ExprKind::kItem:
      return evaluate_item(expr);
    case ExprKind::kSlice:
      return evaluate_slice(expr);
    case ExprKind::kCall:
      return evaluate_call(expr);
    case ExprKind::kFilter:
      return evaluate_filter(expr, nullptr);
    case ExprKind::kTest:
      return evaluate_test(expr);
    case ExprKind::kNot:
      return Value::boolean(!is_true(evaluate(*expr.children[0])));
    case ExprKind::kNegate:
      return negate(evaluate(*expr.children[0]));
    case ExprKind::kPlus:
      return plus(evaluate(*expr.children[0]));
    case ExprKind::kBinary:
      return evaluate_binary(expr);
    case ExprKind::kConcat:
      return evaluate_concat(expr);
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return evaluate_logic(expr);
    case ExprKind::kCompare:
      return evaluate_compare(expr);
    case ExprKind::kConditional:
      return evaluate_conditional(expr);
    case ExprKind::kList:
    case ExprKind::kTuple:
    case ExprKind::kDict:
      return evaluate_collection(expr);
    case ExprKind::kNamespaceTarget:
      break;
  }
  fail("a namespace attribute cannot be read here");
}

Value Evaluator::evaluate_name(const Expr& expr) {
  if (const Value* value = state_.variables.find(expr.symbol)) return *value;
  const std::string& name = state_.source.symbols[static_cast<size_t>(expr.symbol)];
  Value builtin = Functions::named(name);
  if (!builtin.is_none()) return builtin;
  return make_undefined(heap_, fmt::format("{} is undefined", quoted(name)));
}

Value Evaluator::evaluate_attribute(const Expr& expr) {
  const Value object = evaluate(*expr.children[0]);
  if (object.is(Kind::kLoop)) return loops_.attribute(object, expr.name);
  if (object.is(Kind::kMacro) && expr.name == "name") {
    return make_string(heap_, object.get<MacroNode>().definition->name);
  }
  return get_attribute(heap_, object, expr.name);
}

Value Evaluator::evaluate_item(const Expr& expr) {
  const Value object = evaluate(*expr.children[0]);
  const Value key = evaluate(*expr.children[1]);
  if (object.is(Kind::kLoop) && key.is_string()) return loops_.attribute(object, key.text());
  return get_item(heap_, object, key);
}

Value Evaluator::evaluate_slice(const Expr& expr) {
  const Value object = evaluate(*expr.children[0]);
  Value ends[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expr.children[i + 1] != nullptr) ends[i] = evaluate(*expr.children[i + 1]);
  }
  return get_slice(heap_, object, ends[0], ends[1], ends[2]);
}

Arguments Evaluator::evaluate_arguments(const CallSite& site) {
  Arguments arguments;
  for (const ExprPtr& expr : site.positional) arguments.positional.push_back(evaluate(*expr));
  for (const auto& [name, expr] : site.named) arguments.named.emplace_back(name, evaluate(*expr));
  if (site.star != nullptr) {
    for (Value& value : items_of(heap_, evaluate(*site.star)))
      arguments.positional.push_back(std::move(value));
  }
  if (site.double_star != nullptr) {
    const Value mapping = evaluate(*site.double_star);
    if (!mapping.is(Kind::kDict))
      fail("argument after ** must be a mapping, not {}", type_name(mapping));
    for (const auto& [key, value] : mapping.dict().entries) {
      heap_.tick(1 + static_cast<int64_t>(arguments.named.size() / 8));
      if (!key.is_string()) fail("keywords must be strings");
      for (const auto& [have, other] : arguments.named) {
        if (have == key.text()) fail("got multiple values for keyword argument '{}'", have);
      }
      arguments.named.emplace_back(std::string(key.text()), value);
    }
  }
  return arguments;
}

Value Evaluator::evaluate_call(const Expr& expr) {
  const Value callee = evaluate(*expr.children[0]);
  return calls_.call(callee, evaluate_arguments(*expr.call));
}

Value Evaluator::evaluate_filter(const Expr& expr, const Value* block_input) {
  // The innermost filter of a filter or set block has no input expression.
  Value input;
  if (expr.children[0] == nullptr) {
    input = *block_input;
  } else if (block_input != nullptr && expr.children[0]->kind == ExprKind::kFilter) {
    const DepthGuard guard(state_);
    input = evaluate_filter(*expr.children[0], block_input);
  } else {
    input = evaluate(*expr.children[0]);
  }
  return apply_filter(heap_, expr.name, input, evaluate_arguments(*expr.call));
}

Value Evaluator::evaluate_test(const Expr& expr) {
  const Value input = evaluate(*expr.children[0]);
  return Value::boolean(apply_test(heap_, expr.name, input, evaluate_arguments(*expr.call)));
}

Value Evaluator::evaluate_logic(const Expr& expr) {
  const bool stop_at = expr.kind == ExprKind::kOr;
  Value value;
  for (const ExprPtr& child : expr.children) {
    value = evaluate(*child);
    if (is_true(value) == stop_at) break;
  }
  return value;
}

Value Evaluator::evaluate_binary(const Expr& expr) {
  const Value left = evaluate(*expr.children[0]);
  return binary(heap_, expr.binary_op, left, evaluate(*expr.children[1]));
}

Value Evaluator::evaluate_concat(const Expr& expr) {
  std::vector<Value> parts;
  for (const ExprPtr& child : expr.children) parts.push_back(as_string(heap_, evaluate(*child)));
  return join_strings(heap_, "", parts);
}

Value Evaluator::evaluate_compare(const Expr& expr) {
  Value left = evaluate(*expr.children[0]);
  for (size_t i = 0; i < expr.compare_ops.size(); ++i) {
    Value right = evaluate(*expr.children[i + 1]);
    if (!compare(heap_, expr.compare_ops[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Evaluator::evaluate_conditional(const Expr& expr) {
  if (is_true(evaluate(*expr.children[0]))) return evaluate(*expr.children[1]);
  if (expr.children[2] != nullptr) return evaluate(*expr.children[2]);
  return make_undefined(
      heap_, fmt::format("the inline if-expression on line {} evaluated to false and no else "
                         "section was defined.",
                         expr.line));
}

Value Evaluator::evaluate_collection(const Expr& expr) {
  if (expr.kind == ExprKind::kDict) {
    std::vector<Entry> entries;
    for (size_t i = 0; i < expr.children.size(); i += 2) {
      Value key = evaluate(*expr.children[i]);
      entries.emplace_back(std::move(key), evaluate(*expr.children[i + 1]));
    }
    return make_dict(heap_, std::move(entries));
  }
  std::vector<Value> items;
  items.reserve(expr.children.size());
  for (const ExprPtr& child : expr.children) items.push_back(evaluate(*child));
  return expr.kind == ExprKind::kList ? make_list(heap_, std::move(items))
                                      : make_tuple(heap_, std::move(items));
}

}  // namespace quire::jinja
