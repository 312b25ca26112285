// Scores of an indexer for this instruction set.
#include "kernels/cpu/sparse/index_scores-inl.h"

namespace quire {
namespace {

struct Avx2Index {
  static constexpr int kKeys = 2;
  static constexpr int kVectors = 2;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const IndexKernels kIndexAvx2 = kIndexOver<Avx2Index>;

}  // namespace quire::cpu
