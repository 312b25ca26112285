#include "sample/row_tables.h"
#include "sample/row_vectors.h"

namespace quire {
namespace {

static inline __attribute__((always_inline)) Wide mul_wide(U16 a, uint32_t m) {
  Wide out{};
  for (int j = 0; j < 16; ++j) {
    const uint64_t product = uint64_t{a[j]} * m;
    out.low[j] = static_cast<uint32_t>(product);
    out.high[j] = static_cast<uint32_t>(product >> 32);
  }
  return out;
}

// Bit j: lane j is true.
static inline __attribute__((always_inline)) uint32_t true_lanes(I16 mask) {
  uint32_t bits = 0;
  for (int j = 0; j < 16; ++j) bits |= static_cast<uint32_t>(mask[j] & 1) << j;
  return bits;
}

}  // namespace
}  // namespace quire

#include "sample/row_kernels.inc"

namespace quire {
const RowKernels kRowKernelsPortable = {scan, exp_sums, mass_above, collect, leading_chunks};
}  // namespace quire
