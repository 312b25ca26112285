// Scores of an indexer for this instruction set. The SIMD header comes first: the kernels are written
// over it.
// clang-format off
#include "kernels/cpu/simd/simd_avx512.h"
#include "kernels/cpu/sparse/index_kernels.h"
// clang-format on

namespace quire {
namespace {

constexpr int kIndexKeys = 4;
constexpr int kIndexVectors = 4;

}  // namespace
}  // namespace quire

#include "kernels/cpu/sparse/index_scores.inc"

namespace quire::cpu {

const IndexKernels kIndexAvx512 = {.scores = &index_scores};

}  // namespace quire::cpu
