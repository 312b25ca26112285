#include "chat/jinja/run/variables.h"

#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {

const Value* Variables::find(Symbol symbol) const {
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

void Variables::set(Symbol symbol, Value value) {
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

void Variables::check_namespaces(const Expr& target) const {
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

void Variables::assign(const Expr& target, Value value) {
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

}  // namespace quire::jinja
