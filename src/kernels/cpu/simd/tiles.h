// The shapes of the eight tile registers, in the memory format of LDTILECFG. A tile is up to 16
// rows of up to 64 bytes. Dot products C += A x B take groups along k of 4 bytes (pairs of bf16,
// fours of int8), one group per row of B, for 16 columns:
//   A  [rows of C][4 * rows of B bytes]      C  [rows of C][16] of float or int32
//   B  [k groups][16 columns][4 bytes]
//
// A kernel over tiles includes tiles_amx.h or tiles_emulated.h, which both define, in an anonymous
// namespace:
//   Tiles t(shapes);       // sets up the unit for this thread, with all registers 0; the
//                          // destructor releases it
//   t.reshape(shapes);     // sets it up again, with other shapes
//   t.zero<C>();           // T, C, A, B: register numbers 0..7
//   t.load<T>(p, stride);  // row i from p + i * stride bytes
//   t.store<T>(p, stride);
//   t.dot_bf16<C, A, B>();  // C float
//   t.dot_s8<C, A, B>();    // C int32, exact
// While a Tiles lives, nothing else on its thread may use the unit.
#pragma once

#include <stdint.h>

namespace quire::cpu {

inline constexpr int kTileRows = 16;
inline constexpr int kTileBytes = 64;

struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

static constexpr void shape_tile(TileShapes& shapes, int tile, int64_t rows, int64_t row_bytes) {
  shapes.rows[tile] = static_cast<uint8_t>(rows);
  shapes.row_bytes[tile] = static_cast<uint16_t>(row_bytes);
}

}  // namespace quire::cpu
