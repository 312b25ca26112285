// Swizzling: where a 16-byte chunk of a tile is in shared memory.
//
// A tile is rows of `chunks` 16-byte chunks (a power of two, at least 8). One matrix load reads or
// writes eight rows at the same chunk column; without swizzling these chunks would be in the same
// banks. XORing the chunk's number with the row's number modulo 8 spreads them over all 32 banks.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_code.h"

namespace quire::cuda {

// Returns the offset from the start of the tile, in bytes.
QUIRE_HOST_DEVICE constexpr int swizzled_offset(int row, int chunk, int chunks) {
  return (row * chunks + (chunk ^ (row & 7))) * 16;
}

}  // namespace quire::cuda
