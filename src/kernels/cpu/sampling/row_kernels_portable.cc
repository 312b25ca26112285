#include "kernels/cpu/sampling/row_tables.h"
#include "kernels/cpu/sampling/row_vectors.h"

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

// out[0, …) = the lanes whose bits are set, in order; up to 16 floats are overwritten. Returns how
// many.
static inline __attribute__((always_inline)) int64_t put_lanes(F16 x, uint32_t lanes, float* out) {
  int64_t count = 0;
  for (; lanes != 0; lanes &= lanes - 1) out[count++] = x[__builtin_ctz(lanes)];
  return count;
}

}  // namespace
}  // namespace quire

#include "kernels/cpu/sampling/row_kernels.inc"

namespace quire {
const RowKernels kRowKernelsPortable = {scan,    exp_sums,   exp_weights,   mass_above,
                                        collect, split_band, leading_chunks};
}  // namespace quire
