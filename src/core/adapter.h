// An adapter is a set of small changes to a model's weights (LoRA) that some requests ask for and
// others do not. Each executor derives a struct of its own from Adapter and creates it in
// Executor::load_adapter(); all other code only passes it along.
#pragma once

#include <string>

namespace quire {

// An adapter is immutable and shared: one that is unloaded or replaced stays alive as long as a
// request uses it. Two requests use the same adapter if they hold the same object.
struct Adapter {
  virtual ~Adapter() = default;

  std::string name;  // the name by which requests ask for it
  // A digest of its files. The prefix cache identifies the adapter by it, so that KV computed with
  // a replaced adapter is never used with its successor.
  std::string content_key;
};

}  // namespace quire
