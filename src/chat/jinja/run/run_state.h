// RunState is the state of a running rendering.
#pragma once

#include <cstdint>

#include "chat/jinja/parse/ast.h"
#include "chat/jinja/run/nodes.h"
#include "chat/jinja/run/output.h"
#include "chat/jinja/run/variables.h"
#include "chat/jinja/value/heap.h"

namespace quire::jinja {

struct RunLimits {
  int64_t max_steps = 0;
  int64_t max_bytes = 0;  // of live values
  int64_t max_output_bytes = 0;
  int max_depth = 0;  // nested evaluations, which bounds the stack
};

struct RunState {
  RunState(const Template& source, const RunLimits& limits)
      : source(source),
        max_depth(limits.max_depth),
        heap(limits.max_steps, limits.max_bytes),
        variables(heap, source.symbols.size()),
        output(heap, limits.max_output_bytes) {}

  const Template& source;
  const int max_depth;
  int depth = 0;
  Heap heap;  // must outlive every value
  Variables variables;
  Output output;
  CyclicNodes cyclic;  // destroyed first
};

// A DepthGuard counts one more nested evaluation while it lives.
class DepthGuard {
 public:
  explicit DepthGuard(RunState& state) : depth_(state.depth) {
    if (++depth_ > state.max_depth) {
      --depth_;
      fail_limit("the template recurses too deeply");
    }
    state.heap.tick();
  }
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  int& depth_;
};

}  // namespace quire::jinja
