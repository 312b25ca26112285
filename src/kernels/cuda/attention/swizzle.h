// swizzled_offset() says where a 16-byte chunk of a tile lies in shared memory.
//
// A tile is rows of `chunks` 16-byte chunks (a power of two, at least 8). One matrix load reads or
// writes eight rows at the same chunk column, which would share their banks if they were stored
// plainly. Exchanging the chunks of a row by its number modulo 8 spreads them over all 32 banks.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_code.h"

namespace quire::cuda {

// Returns bytes from the start of the tile.
QUIRE_HOST_DEVICE constexpr int swizzled_offset(int row, int chunk, int chunks) {
  return (row * chunks + (chunk ^ (row & 7))) * 16;
}

}  // namespace quire::cuda
