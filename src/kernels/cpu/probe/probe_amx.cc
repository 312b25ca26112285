// Measures the limit of a core's tile unit, from registers.
#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/simd/tiles_amx.h"

namespace quire {
namespace {

// Returns the shapes of four tiles of sums, two of rows and two of columns.
static cpu::TileShapes full_tiles() {
  cpu::TileShapes shapes;
  for (int t = 0; t < 8; ++t) shape_tile(shapes, t, cpu::kTileRows, cpu::kTileBytes);
  return shapes;
}

static double bf16_probe(int64_t iterations, float*) {
  Tiles tiles(full_tiles());
  for (int64_t n = 0; n < iterations; ++n) {
    tiles.dot_bf16<0, 4, 6>();
    tiles.dot_bf16<1, 4, 7>();
    tiles.dot_bf16<2, 5, 6>();
    tiles.dot_bf16<3, 5, 7>();
  }
  return 4.0 * 2 * 16 * 16 * 32 * static_cast<double>(iterations);
}

static double int8_probe(int64_t iterations, float*) {
  Tiles tiles(full_tiles());
  for (int64_t n = 0; n < iterations; ++n) {
    tiles.dot_s8<0, 4, 6>();
    tiles.dot_s8<1, 4, 7>();
    tiles.dot_s8<2, 5, 6>();
    tiles.dot_s8<3, 5, 7>();
  }
  return 4.0 * 2 * 16 * 16 * 64 * static_cast<double>(iterations);
}

}  // namespace
}  // namespace quire

namespace quire::cpu {

const ProbeKernels kProbeAmx = {
    .multiply_add = &bf16_probe, .multiply_add_int8 = &int8_probe, .read = nullptr};

}  // namespace quire::cpu
