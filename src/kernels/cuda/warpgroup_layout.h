// Where operands of warpgroup products are in shared memory, and how a ring of them is walked:
// plain arithmetic (PTX ISA 8.0, "Asynchronous Warpgroup Level Matrix Shared Memory Layout" and
// "Tensor swizzling modes").
//
// A panel is rows of 64 bf16, 128 bytes each. The number of a row's 16-byte chunk, 0 to 7, is XORed
// with the row's number modulo 8, which is what TMA writes and what wgmma reads with 128-byte
// swizzle. A tile of more than 64 dims is several panels.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_code.h"

namespace quire::cuda {

inline constexpr int kWarpgroupThreads = 128;

inline constexpr int kPanelDims = 64;
inline constexpr int kPanelRowBytes = 128;
// A panel consists of groups of eight rows, after which the swizzling repeats.
inline constexpr int kPanelAlignment = 1024;

// Returns the swizzled offset in bytes from the start of shared memory. The function is its own
// inverse.
QUIRE_HOST_DEVICE constexpr uint32_t swizzled_address(uint32_t address) {
  return address ^ (address >> 3 & 0x70u);
}

// Returns the bytes from the tile's start to a 16-byte chunk (8 dims) of a row, in a tile of `rows`
// rows.
QUIRE_HOST_DEVICE constexpr int panel_offset(int row, int chunk, int rows) {
  return chunk / 8 * rows * kPanelRowBytes + row * kPanelRowBytes + ((chunk % 8) ^ (row & 7)) * 16;
}

// Returns the descriptor of an operand of 64 rows or columns for a warpgroup product: the address
// of its first element (before swizzling, a multiple of 16) and the distance of groups of eight
// rows. In a panel whose rows are k-contiguous, 16 elements further along k are 32 bytes further;
// if rows are positions k, they are 16 rows further.
QUIRE_HOST_DEVICE constexpr uint64_t panel_descriptor(uint32_t address) {
  constexpr uint64_t kLeading = 1;         // not used with this swizzle and 64 columns
  constexpr uint64_t kStride = 1024 >> 4;  // of groups of eight rows
  constexpr uint64_t kSwizzle128 = 1;
  return uint64_t{(address & 0x3ffffu) >> 4} | kLeading << 16 | kStride << 32 | kSwizzle128 << 62;
}

// Returns the descriptor of an operand `bytes` further.
QUIRE_HOST_DEVICE constexpr uint64_t moved_descriptor(uint64_t descriptor, uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

// Attention takes tiles of keys and values from one ring in this order, so that the scores of the
// next tile begin before the values of this one are added: piece 0 is K0, then come K1 V0, K2 V1, …
// and last the remaining V.
struct TilePiece {
  int32_t tile = 0;
  bool is_value = false;
};
QUIRE_HOST_DEVICE constexpr TilePiece tile_piece(int32_t piece, int32_t num_tiles) {
  if (piece == 0) return {0, false};
  if (piece == 2 * num_tiles - 1) return {num_tiles - 1, true};
  return piece % 2 == 1 ? TilePiece{piece / 2 + 1, false} : TilePiece{piece / 2 - 1, true};
}

// A position in a ring of kSlots, with the parity of its round.
template <int kSlots>
struct RingPlace {
  int slot = 0;
  uint32_t parity = 0;

  QUIRE_HOST_DEVICE constexpr void advance() {
    if (++slot == kSlots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

// TMA's view of a paged cache of bf16: dims x slots of a block x KV heads x blocks. A box is 64
// dims of `box_rows` slots of one head of one block. Parts of boxes past the dims are filled with
// zeros.
struct CacheMapShape {
  const void* base = nullptr;
  int32_t head_dim = 0;
  int32_t block_size = 0;
  int32_t num_kv_heads = 0;
  int64_t block_stride = 0;  // elements
  int32_t box_rows = 0;
  bool operator==(const CacheMapShape&) const = default;
};
// Returns whether TMA can map the shape: strides must be multiples of 16 bytes, and boxes whole
// groups of eight rows.
constexpr bool is_mappable(const CacheMapShape& shape) {
  return shape.head_dim % 8 == 0 && shape.block_stride % 8 == 0 && shape.box_rows % 8 == 0 &&
         shape.block_size % shape.box_rows == 0 && shape.box_rows <= 256;
}

// TMA's view of a row-major matrix of bf16. A box is 64 columns of `box_rows` rows. Parts outside
// of the matrix are filled with zeros, which takes TMA longer than copying the same amount.
struct MatrixMapShape {
  const void* base = nullptr;  // a multiple of 16
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_stride = 0;  // elements
  int32_t box_rows = 0;
  bool operator==(const MatrixMapShape&) const = default;
};
constexpr bool is_mappable(const MatrixMapShape& shape) {
  return shape.row_stride % 8 == 0 && shape.box_rows % 8 == 0 && shape.box_rows > 0 &&
         shape.box_rows <= 256;
}

}  // namespace quire::cuda
