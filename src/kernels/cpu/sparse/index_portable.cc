// Scores of an indexer for this instruction set.
#include "kernels/cpu/sparse/index_scores-inl.h"

namespace quire {
namespace {

struct PortableIndex {
  static constexpr int kKeys = 1;
  static constexpr int kVectors = 1;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const IndexKernels kIndexPortable = kIndexOver<PortableIndex>;

}  // namespace quire::cpu
