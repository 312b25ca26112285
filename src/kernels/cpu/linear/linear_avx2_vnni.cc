// The linear kernels that use AVX-VNNI.
#include "kernels/cpu/linear/linear_int8-inl.h"

namespace quire {
namespace {

struct Avx2VnniLinearInt8 {
  // 12 of 16 registers hold sums of 6 x 16 outputs, or of 3 x 32.
  static constexpr int64_t kRowBlock = 6;
  static constexpr int64_t kManyRowsBlock = kRowBlock;
  static constexpr int64_t kWideSums = 6;
  static constexpr int64_t kWideBlock = 0;
  static constexpr int64_t kDecodedBlocks = 0;
  static constexpr int64_t kAheadFewRows = 4096;
  static constexpr int64_t kChunkBytes = 64 << 10;
  static constexpr int64_t kRowGroupBytes = 384 << 10;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const LinearKernels kLinearInt8Avx2Vnni = kLinearInt8Over<StoredInt8<Avx2VnniLinearInt8>>;

}  // namespace quire::cpu
