// An adapter is a set of small changes to a model's weights (LoRA) that some requests ask for and
// others do not. Whoever runs the model derives its own kind from it and makes it in
// Executor::load_adapter(); everybody else passes it along.
#pragma once

#include <string>

namespace quire {

// An adapter does not change and is shared: one that is unloaded or replaced lives on as long as a
// request uses it. Two requests use the same adapter if they hold the same object.
struct Adapter {
  virtual ~Adapter() = default;

  std::string name;  // by which requests ask for it
  // A digest of its files. It stands for the adapter in the prefix cache, so that KV of a replaced
  // adapter is never taken for that of its successor.
  std::string content_key;
};

}  // namespace quire
