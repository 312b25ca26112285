// The linear kernels that use AVX512_VNNI.
#include "kernels/cpu/linear/linear_int8-inl.h"

namespace quire {
namespace {

struct Avx512VnniLinearInt8 {
  // 24 of 32 registers hold sums of 12 x 32 outputs; with many rows, blocks of 8 are 4 % faster.
  static constexpr int64_t kRowBlock = 12;
  static constexpr int64_t kManyRowsBlock = 8;
  static constexpr int64_t kWideSums = 24;
  static constexpr int64_t kWideBlock = 0;
  static constexpr int64_t kDecodedBlocks = 0;
  static constexpr int64_t kAheadFewRows = 4096;
  static constexpr int64_t kChunkBytes = 128 << 10;
  static constexpr int64_t kRowGroupBytes = 384 << 10;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const LinearKernels kLinearInt8Avx512Vnni = kLinearInt8Over<StoredInt8<Avx512VnniLinearInt8>>;

}  // namespace quire::cpu
