#include "kernels/cuda_ops.h"

namespace quire {

const OpTable& cuda_ops() {
  static constexpr OpTable kNone{};
  return kNone;
}

}  // namespace quire
