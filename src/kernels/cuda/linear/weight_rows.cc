#include "kernels/cuda/linear/weight_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace quire::cuda {
namespace {

float element(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF32: {
      float x;
      std::memcpy(&x, static_cast<const uint8_t*>(data) + i * 4, sizeof x);
      return x;
    }
    case DType::kBF16:
    case DType::kF16: {
      uint16_t bits;
      std::memcpy(&bits, static_cast<const uint8_t*>(data) + i * 2, sizeof bits);
      return dtype == DType::kBF16 ? to_float(bfloat16{bits}) : to_float(float16{bits});
    }
    default:
      QUIRE_CHECK(false, "[pack] rows are {}", to_string(dtype));
  }
  return 0.0f;
}

}  // namespace

void for_each_piece(const PackedWeight& weight, const WeightRows& rows, const UploadPiece& upload) {
  const WeightSpec& spec = weight.spec;
  QUIRE_CHECK(spec.dtype == DType::kBF16, "[pack] a GPU wants bf16 weights, got {}",
              to_string(spec.dtype));
  QUIRE_CHECK(rows.first_row >= 0 && rows.num_rows >= 0 && rows.num_rows <= spec.n - rows.first_row,
              "[pack] rows [{}, {} + {}) of {}", rows.first_row, rows.first_row, rows.num_rows,
              spec.n);
  constexpr int64_t kElement = sizeof(bfloat16);
  if (rows.dtype == DType::kBF16 && !rows.transposed) {
    upload(rows.first_row * spec.k * kElement, rows.rows, rows.num_rows * spec.k * kElement);
    return;
  }
  constexpr int64_t kPieceElements = int64_t{1} << 20;
  const int64_t rows_at_once = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(1, spec.k));
  std::vector<bfloat16> piece;
  for (int64_t row = 0; row < rows.num_rows; row += rows_at_once) {
    const int64_t count = std::min(rows_at_once, rows.num_rows - row);
    piece.resize(static_cast<size_t>(count * spec.k));
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t k = 0; k < spec.k; ++k) {
        const int64_t at = rows.transposed ? k * rows.num_rows + row + i : (row + i) * spec.k + k;
        piece[static_cast<size_t>(i * spec.k + k)] =
            to_bfloat16(element(rows.rows, rows.dtype, at));
      }
    }
    upload((rows.first_row + row) * spec.k * kElement, piece.data(), count * spec.k * kElement);
  }
}

}  // namespace quire::cuda
