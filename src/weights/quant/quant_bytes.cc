// These weights take one byte each, int8 or fp8 (e4m3): compressed-tensors' int-, float-, naive-
// and mxfp8-quantized, and the fp8 method, whose scales multiply although some are named
// weight_scale_inv. One scale serves the tensor, an output, a group of inputs, or a block.
#include <algorithm>
#include <cstring>

#include "weights/quant/quant_readers.h"

namespace quire {
namespace {

// ScaleLayout says which scale belongs to which output: rows of the scale tensor per row of the
// weight.
struct ScaleLayout {
  int64_t rows_per_scale = 1;
  int64_t group_size = 0;  // inputs
};

struct ByteParts {
  const RawTensor* codes = nullptr;  // [N, K]
  const RawTensor* scales = nullptr;
  const RawTensor* zeros = nullptr;  // I8, shaped as the scales, or null
};

class ByteMatrix final : public QuantMatrix {
 public:
  ByteMatrix(const MatrixShape& shape, const ByteParts& parts, const ScaleLayout& layout,
             const QuantSpec& spec)
      : QuantMatrix(shape), parts_(parts), layout_(layout) {
    spec_ = spec;
  }
  void set_tensors(std::vector<const RawTensor*> tensors, QuantActivations activations) {
    tensors_ = std::move(tensors);
    activations_ = activations;
  }

  Status read_rows(int64_t first_row, int64_t num_rows, const QuantRowTarget& out) const override {
    const std::byte* codes = parts_.codes->data.data() + first_row * columns();
    QUIRE_RETURN_IF_ERROR(copy_codes(codes, num_rows * columns(), out.codes));
    const int64_t groups = spec_.num_groups(columns());
    const int64_t size = scale_bytes(spec_.scale_type);
    for (int64_t row = 0; row < num_rows; ++row) {
      const int64_t from = (first_row + row) / layout_.rows_per_scale * groups;
      std::memcpy(out.scales + row * groups * size, parts_.scales->data.data() + from * size,
                  static_cast<size_t>(groups * size));
      for (int64_t g = 0; out.zeros != nullptr && g < groups; ++g) {
        out.zeros[row * groups + g] = biased(parts_.zeros->data[from + g]);
      }
    }
    return check_finite(parts_.scales->name, out.scales, spec_.scale_type, num_rows * groups);
  }

 private:
  static uint8_t biased(std::byte value) {  // int8 + 128
    return static_cast<uint8_t>(std::to_integer<uint8_t>(value) ^ 0x80u);
  }

  Status copy_codes(const std::byte* from, int64_t count, uint8_t* to) const {
    if (spec_.codebook == Codebook::kLinear) {
      for (int64_t i = 0; i < count; ++i) to[i] = biased(from[i]);
      return {};
    }
    std::memcpy(to, from, static_cast<size_t>(count));
    uint8_t nan = 0;
    for (int64_t i = 0; i < count; ++i) nan |= static_cast<uint8_t>((to[i] & 0x7fu) == 0x7fu);
    if (nan == 0) return {};
    return data_loss("tensor '{}': expected finite values, got NaN", parts_.codes->name);
  }

  ByteParts parts_;
  ScaleLayout layout_;
};

// Finds the layout from the shape of the scales; the configuration must agree with it.
Result<ScaleLayout> find_layout(const RawTensor& scales, const QuantScheme& scheme,
                                const MatrixShape& shape) {
  const auto count = [](int64_t extent, int64_t size) { return (extent + size - 1) / size; };
  if (scheme.block_rows) {
    const int64_t rows = *scheme.block_rows;
    const int64_t columns = scheme.group_size.value_or(shape.columns);
    QUIRE_RETURN_IF_ERROR(check_type_and_shape(
        scales, scales.type_name, {count(shape.rows, rows), count(shape.columns, columns)}));
    return ScaleLayout{rows, columns};
  }
  const int64_t group = scheme.group_size.value_or(-1);
  if (group != -1 && group < shape.columns) {
    QUIRE_RETURN_IF_ERROR(
        check_type_and_shape(scales, scales.type_name, {shape.rows, count(shape.columns, group)}));
    return ScaleLayout{1, group};
  }
  if (scales.num_elements() == 1) return ScaleLayout{shape.rows, shape.columns};
  if (scales.shape != std::vector{shape.rows}) {
    QUIRE_RETURN_IF_ERROR(check_type_and_shape(scales, scales.type_name, {shape.rows, 1}));
  }
  return ScaleLayout{1, shape.columns};
}

// Returns the type of the scales. MXFP8 has powers of two, one byte each.
Result<ScaleType> byte_scale_type(const RawTensor& scales, const QuantScheme& scheme) {
  const bool is_power = scales.type_name == "U8" || scales.type_name == "F8_E8M0";
  return scheme.is_float && is_power ? ScaleType::kE8M0 : scale_type_of(scales);
}

}  // namespace

Result<std::unique_ptr<QuantMatrix>> open_byte_matrix(ModuleTensors& tensors,
                                                      const QuantScheme& scheme,
                                                      const MatrixShape& shape) {
  const std::string_view type = scheme.is_float ? "F8_E4M3" : "I8";
  if (scheme.bits != 8) {
    return invalid_argument("module '{}': expected {} in bytes, got num_bits {}", tensors.module(),
                            type, scheme.bits);
  }
  ByteParts parts;
  QUIRE_ASSIGN_OR_RETURN(parts.codes, tensors.require("weight", type, {shape.rows, shape.columns}));
  parts.scales = tensors.find("weight_scale_inv");
  if (parts.scales == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(parts.scales, tensors.require("weight_scale"));
  }
  QUIRE_ASSIGN_OR_RETURN(const ScaleType scale_type, byte_scale_type(*parts.scales, scheme));
  QUIRE_ASSIGN_OR_RETURN(const ScaleLayout layout, find_layout(*parts.scales, scheme, shape));
  if (!scheme.symmetric) {
    QUIRE_ASSIGN_OR_RETURN(parts.zeros,
                           tensors.require("weight_zero_point", "I8", parts.scales->shape));
  }
  // The scales of activations are not needed, because activations are not quantized for fp8.
  for (const std::string_view suffix : {"input_scale", "input_zero_point", "input_scale_inv"}) {
    static_cast<void>(tensors.find(suffix));
  }
  const bool is_integer = !scheme.is_float;
  const QuantSpec spec{.bits = 8,
                       .codebook = is_integer ? Codebook::kLinear : Codebook::kE4M3,
                       .offset = is_integer && scheme.symmetric ? kInt8Offset : 0,
                       .group_size = layout.group_size,
                       .scale_type = scale_type,
                       .zero_kind = scheme.symmetric ? ZeroKind::kNone : ZeroKind::kInteger};
  auto matrix = std::make_unique<ByteMatrix>(shape, parts, layout, spec);
  matrix->set_tensors(tensors.used(), scheme.activations);
  return std::unique_ptr<QuantMatrix>(std::move(matrix));
}

}  // namespace quire
