#include "nn/products/product_inputs.h"

#include "kernels/api/rows/copy_rows.h"

namespace quire {

Activations allocate_activations(Arena& arena, DType type, int64_t count) {
  return {arena.allocate_bytes(count * size_bytes(type)), type};
}

ProductInputs product_inputs(Stream& stream, const ProductInputs& rows, Activations scratch,
                             int64_t num_tokens, int64_t size) {
  if (rows.x.dtype() == scratch.dtype()) return rows;
  copy_rows(stream, {.x = rows.x,
                     .x_stride = rows.x_stride,
                     .out = scratch,
                     .out_stride = size,
                     .num_tokens = num_tokens,
                     .size = size});
  return {scratch, size};
}

}  // namespace quire
