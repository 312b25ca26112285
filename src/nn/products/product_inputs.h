// The inputs of products: float rows on a CPU, bf16 rows on a GPU.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// Allocates `count` elements.
Activations allocate_activations(Arena& arena, DType type, int64_t count);

// Rows, and the number of elements from one to the next.
struct ProductInputs {
  ConstActivations x;
  int64_t x_stride = 0;
};

// Returns `rows` [num_tokens, size] themselves, or, if `scratch` [num_tokens, size] has another
// element type, which is then that of products' inputs, their copy in `scratch`.
ProductInputs product_inputs(Stream& stream, const ProductInputs& rows, Activations scratch,
                             int64_t num_tokens, int64_t size);

}  // namespace quire
