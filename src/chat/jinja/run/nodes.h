// These nodes exist only while a template is rendered: scopes, macros, running loops.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "chat/jinja/parse/ast.h"
#include "chat/jinja/value/value.h"

namespace quire::jinja {

// A Scope has the variables of one lexical level. Macros keep the levels around them alive.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<Symbol, Value>> variables;
};

struct MacroNode final : Node {
  const MacroDef* definition = nullptr;
  std::shared_ptr<Scope> scope;
};

// A LoopNode is a running loop, as the variable `loop` shows it. Items that pass the loop's own
// condition are searched when they are needed, because the condition may read what the body sets.
struct LoopNode final : Node {
  const Stmt* statement = nullptr;
  std::shared_ptr<Scope> scope;  // the scope around the loop
  std::vector<Value> source;     // items from `source_position` on have not been tested
  size_t source_position = 0;
  std::vector<Value> accepted;
  int64_t index0 = -1;
  int64_t depth0 = 0;
  std::vector<Value> last_changed;
  bool has_changed = false;
};

// CyclicNodes holds nodes that may refer to themselves, or form chains too long to destroy by
// recursion. They are emptied at the end, while this object still holds all of them.
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
