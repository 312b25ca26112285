// The linear kernels for this instruction set.
#include "kernels/cpu/linear/linear-inl.h"
#include "kernels/cpu/linear/linear_int8-inl.h"

namespace quire {
namespace {

struct PortableLinear {
  // Sums of 16 lanes; the baseline has few registers.
  static constexpr int64_t kRowBlock = 4;
  static constexpr int64_t kManyRowsBlock = kRowBlock;
  static constexpr int64_t kWideSums = 4;
  static constexpr int64_t kWideBlock = 0;
  static constexpr int64_t kDecodedBlocks = 0;
  static constexpr int64_t kAheadFewRows = 4096;
  static constexpr int64_t kChunkBytes = 64 << 10;  // small blocks read a weight often
  static constexpr int64_t kRowGroupBytes = 384 << 10;
};

struct PortableLinearInt8 : PortableLinear {
  static constexpr int64_t kWideSums = 2;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const LinearKernels kLinearPortable = kLinearOver<PortableLinear>;
const LinearKernels kLinearInt8Portable = kLinearInt8Over<StoredInt8<PortableLinearInt8>>;

}  // namespace quire::cpu
