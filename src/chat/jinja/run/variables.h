// Variables are the variables that a template sees: those of the scopes around it, then those of
// the whole rendering.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "chat/jinja/run/nodes.h"
#include "chat/jinja/value/heap.h"

namespace quire::jinja {

class Variables {
 public:
  Variables(Heap& heap, size_t num_symbols)
      : heap_(heap),
        root_(std::make_shared<Scope>()),
        scope_(root_),
        root_values_(num_symbols),
        has_root_value_(num_symbols) {}

  // Returns a variable, which is valid until the next set(), or null when there is none.
  const Value* find(Symbol symbol) const;
  // Sets a variable of the current scope.
  void set(Symbol symbol, Value value);
  // Assigns to a target, which may name several variables.
  void assign(const Expr& target, Value value);
  // Fails when a target names an attribute of a value that is no namespace.
  void check_namespaces(const Expr& target) const;

  const std::shared_ptr<Scope>& scope() const { return scope_; }
  const std::shared_ptr<Scope>& root() const { return root_; }

  // Opens a new scope below `parent`, or below the current one, until the guard is destroyed.
  class ScopeGuard {
   public:
    ScopeGuard(Variables& variables, std::shared_ptr<Scope> parent)
        : variables_(variables), saved_(variables.scope_) {
      auto scope = std::make_shared<Scope>();
      scope->parent = std::move(parent);
      variables_.scope_ = std::move(scope);
    }
    explicit ScopeGuard(Variables& variables) : ScopeGuard(variables, variables.scope_) {}
    ~ScopeGuard() { variables_.scope_ = std::move(saved_); }
    ScopeGuard(const ScopeGuard&) = delete;
    ScopeGuard& operator=(const ScopeGuard&) = delete;

   private:
    Variables& variables_;
    std::shared_ptr<Scope> saved_;
  };

 private:
  Heap& heap_;
  std::shared_ptr<Scope> root_;
  std::shared_ptr<Scope> scope_;
  std::vector<Value> root_values_;  // by symbol
  std::vector<bool> has_root_value_;
};

}  // namespace quire::jinja
