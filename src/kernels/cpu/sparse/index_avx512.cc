// Scores of an indexer for this instruction set.
#include "kernels/cpu/sparse/index_scores-inl.h"

namespace quire {
namespace {

struct Avx512Index {
  static constexpr int kKeys = 4;
  static constexpr int kVectors = 4;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const IndexKernels kIndexAvx512 = kIndexOver<Avx512Index>;

}  // namespace quire::cpu
