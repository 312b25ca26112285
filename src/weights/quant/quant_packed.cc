// compressed-tensors' pack-quantized stores codes and zero points plus 2^(bits - 1); codes are
// packed along the inputs, zero points along the outputs.
#include <algorithm>
#include <cstring>

#include "weights/quant/quant_readers.h"

namespace quire {
namespace {

// A Packing says how values of `bits` bits lie in 32-bit words: end to end, or, in files of older
// tools, as many as fit into each word.
struct Packing {
  int bits;
  bool padded;

  int64_t words(int64_t count) const {
    return padded ? (count + 32 / bits - 1) / (32 / bits) : (count * bits + 31) / 32;
  }
  uint32_t at(const std::byte* words, int64_t stride_words, int64_t index) const {
    if (!padded) return PackedBits(words, stride_words, bits).at(index);
    uint32_t word;
    std::memcpy(&word, words + index / (32 / bits) * stride_words * 4, 4);
    return word >> (index % (32 / bits) * bits) & ((1u << bits) - 1u);
  }
};

struct PackedParts {
  const RawTensor* codes = nullptr;   // [N, words]
  const RawTensor* scales = nullptr;  // [N, G], or one element
  const RawTensor* zeros = nullptr;   // [words, G], or I8 [N, G] without packing, or null
};

class PackedMatrix final : public QuantMatrix {
 public:
  PackedMatrix(const MatrixShape& shape, const PackedParts& parts, Packing packing,
               const QuantSpec& spec, std::vector<int32_t> order)
      : QuantMatrix(shape), parts_(parts), packing_(packing) {
    spec_ = spec;
    column_order_ = std::move(order);
  }
  void set_tensors(std::vector<const RawTensor*> tensors) { tensors_ = std::move(tensors); }

  Status read_rows(int64_t first_row, int64_t num_rows, const QuantRowTarget& out) const override {
    const int64_t groups = spec_.num_groups(columns());
    const int64_t size = scale_bytes(spec_.scale_type);
    const bool one_scale = parts_.scales->num_elements() == 1;
    const int64_t words = parts_.codes->shape[1];
    for (int64_t row = 0; row < num_rows; ++row) {
      read_codes(parts_.codes->data.data() + (first_row + row) * words * 4,
                 out.codes + row * columns());
      const int64_t scale_row = one_scale ? 0 : first_row + row;
      std::memcpy(out.scales + row * groups * size,
                  parts_.scales->data.data() + scale_row * groups * size,
                  static_cast<size_t>(groups * size));
      for (int64_t g = 0; out.zeros != nullptr && g < groups; ++g) {
        out.zeros[row * groups + g] = zero_at(first_row + row, g, groups);
      }
    }
    return check_finite(parts_.scales->name, out.scales, spec_.scale_type, num_rows * groups);
  }

 private:
  void read_codes(const std::byte* words, uint8_t* codes) const {
    if (packing_.bits == 4 && column_order_.empty()) return read_nibbles(words, codes);
    for (int64_t k = 0; k < columns(); ++k) {
      const int64_t source = column_order_.empty() ? k : column_order_[static_cast<size_t>(k)];
      codes[k] = static_cast<uint8_t>(packing_.at(words, 1, source));
    }
  }

  void read_nibbles(const std::byte* bytes, uint8_t* codes) const {
    for (int64_t k = 0; k < columns(); ++k) {
      const auto byte = std::to_integer<unsigned>(bytes[k / 2]);
      codes[k] = static_cast<uint8_t>(byte >> (4 * (k % 2)) & 15u);
    }
  }

  uint8_t zero_at(int64_t row, int64_t g, int64_t groups) const {
    if (parts_.zeros->dtype == DType::kI8) {
      const auto zero = static_cast<int8_t>(parts_.zeros->data[row * groups + g]);
      return static_cast<uint8_t>(zero + (1 << (packing_.bits - 1)));
    }
    return static_cast<uint8_t>(packing_.at(parts_.zeros->data.data() + g * 4, groups, row));
  }

  PackedParts parts_;
  Packing packing_;
};

Status check_stated_shape(ModuleTensors& tensors, const MatrixShape& shape) {
  const RawTensor* stated = tensors.find("weight_shape");
  if (stated == nullptr) return {};
  if (stated->shape != std::vector<int64_t>{2} ||
      (stated->dtype != DType::kI64 && stated->dtype != DType::kI32)) {
    return invalid_argument("tensor '{}': expected two integers, got {} of {}", stated->name,
                            stated->num_elements(), stated->type_name);
  }
  int64_t extents[2];
  for (int i = 0; i < 2; ++i) {
    int32_t narrow;
    std::memcpy(&narrow, stated->data.data() + i * 4, 4);
    extents[i] = narrow;
    if (stated->dtype == DType::kI64) std::memcpy(&extents[i], stated->data.data() + i * 8, 8);
  }
  if (extents[0] != shape.rows || extents[1] != shape.columns) {
    return invalid_argument("tensor '{}': expected [{}, {}], got [{}, {}]", stated->name,
                            shape.rows, shape.columns, extents[0], extents[1]);
  }
  return {};
}

// Finds the packing from the number of words.
Result<Packing> find_packing(const RawTensor& codes, int bits, const MatrixShape& shape) {
  const Packing dense{bits, false};
  const Packing padded{bits, true};
  const std::vector<int64_t> dense_shape{shape.rows, dense.words(shape.columns)};
  if (codes.shape == std::vector<int64_t>{shape.rows, padded.words(shape.columns)} &&
      codes.shape != dense_shape) {
    return padded;
  }
  QUIRE_RETURN_IF_ERROR(check_type_and_shape(codes, codes.type_name, dense_shape));
  return dense;
}

Status check_scales(const RawTensor& scales, int64_t groups, const MatrixShape& shape) {
  QUIRE_RETURN_IF_ERROR(scale_type_of(scales).status());
  if (groups == 1 && (scales.num_elements() == 1 || scales.shape == std::vector{shape.rows})) {
    return {};
  }
  return check_type_and_shape(scales, scales.type_name, {shape.rows, groups});
}

Status find_zeros(ModuleTensors& tensors, const Packing& packing, int64_t groups,
                  const MatrixShape& shape, PackedParts& parts) {
  QUIRE_ASSIGN_OR_RETURN(parts.zeros, tensors.require("weight_zero_point"));
  if (parts.zeros->dtype == DType::kI8) {
    return check_type_and_shape(*parts.zeros, "I8", {shape.rows, groups});
  }
  return check_type_and_shape(*parts.zeros, "I32", {packing.words(shape.rows), groups});
}

// Returns the width that the kernels use for codes of so many bits.
int kernel_bits(int bits) { return bits == 1 ? 2 : bits == 7 ? 8 : bits; }

}  // namespace

Result<std::unique_ptr<QuantMatrix>> open_packed_matrix(ModuleTensors& tensors,
                                                        const QuantScheme& scheme,
                                                        const MatrixShape& shape) {
  if (scheme.is_float || scheme.block_rows) {
    return unimplemented(
        "module '{}': expected integers with a scale per group for "
        "pack-quantized, got {}",
        tensors.module(), scheme.description());
  }
  PackedParts parts;
  QUIRE_ASSIGN_OR_RETURN(parts.codes, tensors.require("weight_packed"));
  if (parts.codes->dtype != DType::kI32) {
    return unimplemented("tensor '{}': expected element type I32, got {}", parts.codes->name,
                         parts.codes->type_name);
  }
  QUIRE_RETURN_IF_ERROR(check_stated_shape(tensors, shape));
  QUIRE_ASSIGN_OR_RETURN(const Packing packing, find_packing(*parts.codes, scheme.bits, shape));
  const int64_t group = scheme.group_size.value_or(-1);
  const int64_t groups = count_groups(shape.columns, group);
  QUIRE_ASSIGN_OR_RETURN(parts.scales, tensors.require("weight_scale"));
  QUIRE_RETURN_IF_ERROR(check_scales(*parts.scales, groups, shape));
  if (!scheme.symmetric) {
    QUIRE_RETURN_IF_ERROR(find_zeros(tensors, packing, groups, shape, parts));
  }
  std::vector<int32_t> order;
  if (scheme.act_order) {
    QUIRE_ASSIGN_OR_RETURN(const RawTensor* g_idx, tensors.require("weight_g_idx"));
    QUIRE_ASSIGN_OR_RETURN(order, order_by_group(*g_idx, shape.columns, group));
  }
  QuantSpec spec{.bits = kernel_bits(scheme.bits),
                 .offset = scheme.symmetric ? 1 << (scheme.bits - 1) : 0,
                 .group_size = group == -1 ? shape.columns : group,
                 .scale_type = *scale_type_of(*parts.scales),
                 .zero_kind = scheme.symmetric ? ZeroKind::kNone : ZeroKind::kInteger};
  spec.has_column_order = !order.empty();
  auto matrix = std::make_unique<PackedMatrix>(shape, parts, packing, spec, std::move(order));
  matrix->set_tensors(tensors.used());
  return std::unique_ptr<QuantMatrix>(std::move(matrix));
}

}  // namespace quire
