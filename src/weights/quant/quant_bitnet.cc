// BitNet's weights are -1, 0 and 1. A byte holds four, from rows that are a quarter of the matrix
// apart, and the matrix has one scale.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "weights/quant/quant_readers.h"
#include "weights/tensors/element.h"

namespace quire {
namespace {

constexpr int64_t kRowsPerByte = 4;
constexpr int64_t kGroupSize = 256;  // kernels can add up integer products of this many weights

class BitNetMatrix final : public QuantMatrix {
 public:
  // codes: [N / 4, K].
  BitNetMatrix(const MatrixShape& shape, const RawTensor& codes, float scale,
               std::vector<const RawTensor*> tensors)
      : QuantMatrix(shape), codes_(codes), scale_(scale) {
    spec_ = {.bits = 2, .offset = 1, .group_size = kGroupSize, .scale_type = ScaleType::kF32};
    tensors_ = std::move(tensors);
  }

  Status read_rows(int64_t first_row, int64_t num_rows, const QuantRowTarget& out) const override {
    const int64_t quarter = rows() / kRowsPerByte;
    uint8_t largest = 0;
    for (int64_t row = 0; row < num_rows; ++row) {
      const int64_t part = (first_row + row) / quarter;
      const std::byte* from = codes_.data.data() + (first_row + row) % quarter * columns();
      uint8_t* to = out.codes + row * columns();
      for (int64_t k = 0; k < columns(); ++k) {
        to[k] = static_cast<uint8_t>(std::to_integer<unsigned>(from[k]) >> (2 * part) & 3u);
        largest = std::max(largest, to[k]);
      }
    }
    if (largest > 2) {
      return data_loss("tensor '{}': expected codes 0, 1 and 2 for -1, 0 and 1, got {}",
                       codes_.name, largest);
    }
    const int64_t count = num_rows * spec_.num_groups(columns());
    for (int64_t i = 0; i < count; ++i) std::memcpy(out.scales + 4 * i, &scale_, 4);
    return {};
  }

 private:
  const RawTensor& codes_;
  float scale_;
};

}  // namespace

Result<std::unique_ptr<QuantMatrix>> open_bitnet_matrix(ModuleTensors& tensors,
                                                        const QuantScheme& scheme,
                                                        const MatrixShape& shape) {
  if (shape.rows % kRowsPerByte != 0) {
    return invalid_argument("module '{}': expected a multiple of {} outputs for bitnet, got {}",
                            tensors.module(), kRowsPerByte, shape.rows);
  }
  QUIRE_ASSIGN_OR_RETURN(
      const RawTensor* codes,
      tensors.require("weight", "U8", {shape.rows / kRowsPerByte, shape.columns}));
  QUIRE_ASSIGN_OR_RETURN(const RawTensor* scales, tensors.require("weight_scale"));
  QUIRE_RETURN_IF_ERROR(check_type_and_shape(*scales, scales->type_name, {1}));
  QUIRE_RETURN_IF_ERROR(scale_type_of(*scales).status());
  const float stored = read_element(scales->data.data(), *scales->dtype, 0);
  const float scale = scheme.scale_divides ? 1.0f / stored : stored;
  if (!std::isfinite(scale) || scale <= 0.0f) {
    return data_loss("tensor '{}': expected a number above 0, got {}", scales->name, stored);
  }
  return std::unique_ptr<QuantMatrix>(
      std::make_unique<BitNetMatrix>(shape, *codes, scale, tensors.used()));
}

}  // namespace quire
