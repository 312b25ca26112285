// What only a rendering has on its heap: scopes, macros, running loops.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "chat/jinja/parse/ast.h"
#include "chat/jinja/value/value.h"

namespace quire::jinja {

// A Scope has the variables of one lexical level; macros keep the levels around them alive.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<Symbol, Value>> variables;
};

struct MacroNode final : Node {
  const MacroDef* definition = nullptr;
  std::shared_ptr<Scope> scope;
};

// A LoopNode is a running loop, as `loop` shows it. Items that the loop's own condition lets
// through are found as they are asked for, because the condition may read what the body sets.
struct LoopNode final : Node {
  const Stmt* statement = nullptr;
  std::shared_ptr<Scope> scope;  // around the loop
  std::vector<Value> source;     // not yet looked at from `source_position` on
  size_t source_position = 0;
  std::vector<Value> accepted;
  int64_t index0 = -1;
  int64_t depth0 = 0;
  std::vector<Value> last_changed;
  bool has_changed = false;
};

// Nodes that may hold themselves, or form chains too long to destroy by recursion. They are emptied
// at the end, while all of them are still held here.
class CyclicNodes {
 public:
  CyclicNodes() = default;
  CyclicNodes(const CyclicNodes&) = delete;
  CyclicNodes& operator=(const CyclicNodes&) = delete;
  ~CyclicNodes();

  void keep(std::shared_ptr<Node> node) { nodes_.push_back(std::move(node)); }

 private:
  std::vector<std::shared_ptr<Node>> nodes_;
};

}  // namespace quire::jinja
