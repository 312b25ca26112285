// The linear kernels for this instruction set.
#include "kernels/cpu/linear/linear-inl.h"
#include "kernels/cpu/linear/linear_int8-inl.h"
#include "kernels/cpu/linear/linear_int8_pairs-inl.h"

namespace quire {
namespace {

struct Avx2Linear {
  // 12 of 16 registers hold the accumulators of 6 x 16 outputs, and 2 a row of weights.
  static constexpr int64_t kRowBlock = 6;
  static constexpr int64_t kManyRowsBlock = kRowBlock;
  // 3 x 32 outputs have as many accumulators. Those of 4 x 16 would be too few for both
  // multipliers.
  static constexpr int64_t kWideSums = 6;
  static constexpr int64_t kWideBlock = 3;
  static constexpr int64_t kDecodedBlocks = 3;
  // In decode on Zen 5 this takes 4 to 8 % less time than 4 KB (but with AVX-512 1 % more).
  static constexpr int64_t kAheadFewRows = 8192;
  static constexpr int64_t kChunkBytes = 64 << 10;  // small blocks read a weight often
  static constexpr int64_t kRowGroupBytes = 160 << 10;
};

struct Avx2LinearInt8 : Avx2Linear {
  static constexpr int64_t kWideSums = 2;
  // Widening int8 takes few instructions beside the products, so it pays only from more blocks on.
  static constexpr int64_t kDecodedBlocks = 4;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const LinearKernels kLinearAvx2 = kLinearOver<Avx2Linear>;
const LinearKernels kLinearInt8Avx2 = kLinearInt8Over<StoredInt8Pairs<Avx2LinearInt8>>;

}  // namespace quire::cpu
