// The bytes of a model's packed matrices, by how much of them a step reads.
#pragma once

#include <cstdint>

namespace quire {

struct MatrixBytes {
  int64_t dense = 0;    // of layers without routed experts: every step reads all of them
  int64_t experts = 0;  // of all routed experts: a step reads those that its tokens chose
  int64_t head = 0;     // read by steps that sample

  void add(const MatrixBytes& other) {
    dense += other.dense;
    experts += other.experts;
    head += other.head;
  }
  friend bool operator==(const MatrixBytes&, const MatrixBytes&) = default;
};

}  // namespace quire
