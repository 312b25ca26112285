#include "kernels/row_staging.h"

#include <cstring>

#include "kernels/cuda/weight_rows.h"
#include "kernels/ops.h"

namespace quire {
namespace {

void pack_rows(Stream& /*stream*/, const PackedWeight& weight, const WeightRows& rows) {
  cuda::for_each_piece(weight, rows, [&](int64_t offset, const void* data, int64_t num_bytes) {
    std::memcpy(static_cast<uint8_t*>(weight.data) + offset, data, static_cast<size_t>(num_bytes));
  });
}

}  // namespace

const OpTable* RowStagingStream::ops() const {
  static constexpr OpTable kTable{.pack_weight_rows = pack_rows};
  return &kTable;
}

}  // namespace quire
