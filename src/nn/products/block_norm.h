// The norms and scales that several blocks of a layer apply to rows.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "nn/decoder_spec.h"
#include "nn/products/linear_product.h"
#include "nn/weights/norm_weights.h"
#include "tensor/activations.h"

namespace quire {

// out [T, E] = the norm of x [T, E], of the kind that the model's blocks have. With `rows`, row i
// of `out` is the norm of row rows[i] of x.
struct BlockNorm {
  const NormWeights& weights;
  ConstActivations x;
  Activations out;
  int64_t num_tokens = 0;
  const int32_t* rows = nullptr;  // [T] or null
};
// `lora` holds the batch's adapters, which may have norms of their own, or is null. Row i is row i
// of its selection.
void run_block_norm(Stream& stream, const DecoderSpec& spec, const BlockNorm& norm,
                    LoraBatch* lora = nullptr);

// Multiplies x [T, size] by `scale`.
void scale_columns(Stream& stream, const Columns& x, int64_t size, float scale, int64_t num_tokens);

}  // namespace quire
