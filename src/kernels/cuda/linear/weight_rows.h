// Weights on a GPU have the layout of checkpoints: dense rows [N, K] of bf16, which cuBLASLt reads
// in place.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/api/linear.h"

namespace quire::cuda {

// Calls upload(offset in the weight, data, bytes) for each piece of `rows`, converted to bf16 if
// necessary. Pieces that need no conversion are the caller's own memory.
using UploadPiece = std::function<void(int64_t offset_bytes, const void* data, int64_t num_bytes)>;
void for_each_piece(const PackedWeight& weight, const WeightRows& rows, const UploadPiece& upload);

}  // namespace quire::cuda
