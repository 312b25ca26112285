// The linear kernels for this instruction set.
#include "kernels/cpu/linear/linear-inl.h"
#include "kernels/cpu/linear/linear_int8-inl.h"

namespace quire {
namespace {

struct Avx512Linear {
  // 24 of 32 registers hold accumulators of 12 x 32 outputs.
  static constexpr int64_t kRowBlock = 12;
  static constexpr int64_t kManyRowsBlock = kRowBlock;
  static constexpr int64_t kWideSums = 24;
  static constexpr int64_t kWideBlock = 0;
  static constexpr int64_t kDecodedBlocks = 0;
  static constexpr int64_t kAheadFewRows = 4096;
  static constexpr int64_t kChunkBytes = 128 << 10;
  static constexpr int64_t kRowGroupBytes = 384 << 10;
};

struct Avx512LinearInt8 : Avx512Linear {
  static constexpr int64_t kRowBlock = 8;
  static constexpr int64_t kManyRowsBlock = kRowBlock;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const LinearKernels kLinearAvx512 = kLinearOver<Avx512Linear>;
const LinearKernels kLinearInt8Avx512 = kLinearInt8Over<StoredInt8<Avx512LinearInt8>>;

}  // namespace quire::cpu
