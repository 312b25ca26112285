// AWQ has the gemm layout: four-bit codes packed along the outputs, eight per word in a special
// order; w[k][n] = (q - z) * s.
#include <cstring>

#include "weights/quant/quant_readers.h"

namespace quire {
namespace {

constexpr int64_t kWord = 8;  // codes per word
// Column 8c + j is this nibble of word c.
constexpr int kNibbleOf[kWord] = {0, 4, 1, 5, 2, 6, 3, 7};

uint32_t word_at(const RawTensor& tensor, int64_t index) {
  uint32_t word;
  std::memcpy(&word, tensor.data.data() + index * 4, 4);
  return word;
}

class AwqMatrix final : public QuantMatrix {
 public:
  struct Parts {
    const RawTensor* codes;   // [K, N / 8]
    const RawTensor* zeros;   // [G, N / 8]
    const RawTensor* scales;  // [G, N]
  };
  AwqMatrix(const MatrixShape& shape, const Parts& parts, const QuantSpec& spec)
      : QuantMatrix(shape), parts_(parts) {
    spec_ = spec;
    tensors_ = {parts.codes, parts.zeros, parts.scales};
  }

  Status read_rows(int64_t first_row, int64_t num_rows, const QuantRowTarget& out) const override {
    const int64_t groups = spec_.num_groups(columns());
    unpack(*parts_.codes, columns(), first_row, num_rows, out.codes);
    unpack(*parts_.zeros, groups, first_row, num_rows, out.zeros);
    const int64_t size = scale_bytes(spec_.scale_type);
    for (int64_t row = 0; row < num_rows; ++row) {
      for (int64_t g = 0; g < groups; ++g) {
        std::memcpy(out.scales + (row * groups + g) * size,
                    parts_.scales->data.data() + (g * rows() + first_row + row) * size,
                    static_cast<size_t>(size));
      }
    }
    return check_finite(parts_.scales->name, out.scales, spec_.scale_type, num_rows * groups);
  }

 private:
  // Unpacks `from` [count, N / 8] to [num_rows, count].
  void unpack(const RawTensor& from, int64_t count, int64_t first_row, int64_t num_rows,
              uint8_t* to) const {
    const int64_t words = rows() / kWord;
    for (int64_t row = 0; row < num_rows;) {
      const int64_t column = (first_row + row) % kWord;
      const int64_t n = std::min(kWord - column, num_rows - row);
      const int64_t word = (first_row + row) / kWord;
      for (int64_t i = 0; i < count; ++i) {
        const uint32_t packed = word_at(from, i * words + word);
        for (int64_t j = 0; j < n; ++j) {
          to[(row + j) * count + i] =
              static_cast<uint8_t>(packed >> (4 * kNibbleOf[column + j]) & 15u);
        }
      }
      row += n;
    }
  }

  Parts parts_;
};

}  // namespace

Result<std::unique_ptr<QuantMatrix>> open_awq_matrix(ModuleTensors& tensors,
                                                     const QuantScheme& scheme,
                                                     const MatrixShape& shape) {
  const int64_t group = scheme.group_size.value_or(-1);
  const int64_t groups = count_groups(shape.columns, group);
  if (shape.rows % kWord != 0) {
    return invalid_argument("module '{}': expected outputs in a multiple of {} for awq, got {}",
                            tensors.module(), kWord, shape.rows);
  }
  AwqMatrix::Parts parts{};
  const int64_t words = shape.rows / kWord;
  QUIRE_ASSIGN_OR_RETURN(parts.codes, tensors.require("qweight", "I32", {shape.columns, words}));
  QUIRE_ASSIGN_OR_RETURN(parts.zeros, tensors.require("qzeros", "I32", {groups, words}));
  QUIRE_ASSIGN_OR_RETURN(parts.scales, tensors.require("scales"));
  QUIRE_ASSIGN_OR_RETURN(const ScaleType type, scale_type_of(*parts.scales));
  QUIRE_RETURN_IF_ERROR(
      check_type_and_shape(*parts.scales, parts.scales->type_name, {groups, shape.rows}));
  const QuantSpec spec{.bits = 4,
                       .group_size = group == -1 ? shape.columns : group,
                       .scale_type = type,
                       .zero_kind = ZeroKind::kInteger};
  return std::unique_ptr<QuantMatrix>(std::make_unique<AwqMatrix>(shape, parts, spec));
}

}  // namespace quire
