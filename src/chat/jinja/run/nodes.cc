#include "chat/jinja/run/nodes.h"

namespace quire::jinja {

CyclicNodes::~CyclicNodes() {
  for (const std::shared_ptr<Node>& node : nodes_) {
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

}  // namespace quire::jinja
