// What products read: on a CPU float rows where they lie, on a GPU rows of bf16.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// `count` elements.
Activations allocate_activations(Arena& arena, DType type, int64_t count);

// These are some rows, and the elements from one to the next.
struct ProductInputs {
  ConstActivations x;
  int64_t x_stride = 0;
};

// Returns `rows` [num_tokens, size], or where `scratch` [num_tokens, size] is of another element type,
// which is that of products' inputs then, their copy in it.
ProductInputs product_inputs(Stream& stream, const ProductInputs& rows, Activations scratch,
                             int64_t num_tokens, int64_t size);

}  // namespace quire
