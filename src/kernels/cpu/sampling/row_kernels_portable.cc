// The passes over rows of logits for this instruction set.
#include "kernels/cpu/sampling/row_kernels-inl.h"
#include "kernels/cpu/sampling/row_tables.h"

namespace quire {
namespace {

struct PortableLanes {
  QUIRE_ROW Wide mul_wide(U16 a, uint32_t m) {
    Wide out{};
    for (int j = 0; j < 16; ++j) {
      const uint64_t product = uint64_t{a[j]} * m;
      out.low[j] = static_cast<uint32_t>(product);
      out.high[j] = static_cast<uint32_t>(product >> 32);
    }
    return out;
  }
  QUIRE_ROW uint32_t true_lanes(I16 mask) {
    uint32_t bits = 0;
    for (int j = 0; j < 16; ++j) bits |= static_cast<uint32_t>(mask[j] & 1) << j;
    return bits;
  }
  QUIRE_ROW int64_t put_lanes(F16 x, uint32_t lanes, float* out) {
    return put_each_lane(x, lanes, out);
  }
};

}  // namespace

const RowKernels kRowKernelsPortable = kRowKernelsOver<PortableLanes>;

}  // namespace quire
