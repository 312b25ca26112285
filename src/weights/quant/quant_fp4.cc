// These are weights of four-bit floats (e2m1), two per byte, the even input in the low nibble:
// compressed-tensors' nvfp4- and mxfp4-pack-quantized, and ModelOpt's NVFP4. MX has a power of two
// (E8M0) per 32 inputs. NVFP4 has an e4m3 scale per 16 inputs and one factor for the tensor.
// compressed-tensors stores a divisor instead: its reciprocal, rounded to float, is the factor.
#include <cstring>

#include "weights/quant/quant_readers.h"

namespace quire {
namespace {

struct Fp4Parts {
  const RawTensor* codes = nullptr;   // U8 [N, K / 2]
  const RawTensor* scales = nullptr;  // [N, G]
  float factor = 1.0f;
};

class Fp4Matrix final : public QuantMatrix {
 public:
  Fp4Matrix(const MatrixShape& shape, const Fp4Parts& parts, const QuantSpec& spec,
            std::vector<const RawTensor*> tensors, QuantActivations activations)
      : QuantMatrix(shape), parts_(parts) {
    spec_ = spec;
    tensors_ = std::move(tensors);
    activations_ = activations;
  }

  Status read_rows(int64_t first_row, int64_t num_rows, const QuantRowTarget& out) const override {
    const std::byte* codes = parts_.codes->data.data() + first_row * columns() / 2;
    for (int64_t i = 0; i < num_rows * columns() / 2; ++i) {
      const auto byte = std::to_integer<uint8_t>(codes[i]);
      out.codes[2 * i] = byte & 15u;
      out.codes[2 * i + 1] = byte >> 4;
    }
    const int64_t groups = spec_.num_groups(columns());
    std::memcpy(out.scales, parts_.scales->data.data() + first_row * groups,
                static_cast<size_t>(num_rows * groups));
    for (int64_t row = 0; out.super_scales != nullptr && row < num_rows; ++row) {
      std::memcpy(out.super_scales + row * int64_t{sizeof(float)}, &parts_.factor, sizeof(float));
    }
    return check_finite(parts_.scales->name, out.scales, spec_.scale_type, num_rows * groups);
  }

 private:
  Fp4Parts parts_;
};

// Reads the factor, which must be positive.
Result<float> read_factor(const RawTensor& tensor) {
  if (tensor.dtype != DType::kF32 || tensor.num_elements() != 1) {
    return invalid_argument("tensor '{}': expected one F32, got {} of {}", tensor.name,
                            tensor.num_elements(), tensor.type_name);
  }
  float value;
  std::memcpy(&value, tensor.data.data(), sizeof value);
  if (std::isnormal(value) && value > 0 && std::isnormal(1.0f / value)) return value;
  return data_loss("tensor '{}': expected a positive number, got {}", tensor.name, value);
}

}  // namespace

Result<std::unique_ptr<QuantMatrix>> open_fp4_matrix(ModuleTensors& tensors,
                                                     const QuantScheme& scheme,
                                                     const MatrixShape& shape) {
  const int64_t group = scheme.group_size.value_or(0);
  if (group < 1 || shape.columns % 2 != 0 || scheme.block_rows || !scheme.symmetric) {
    return invalid_argument(
        "module '{}': expected symmetric groups of an even number of inputs for fp4, got {} of {}",
        tensors.module(), scheme.description(), shape.columns);
  }
  Fp4Parts parts;
  parts.codes = tensors.find("weight_packed");
  const bool divides = parts.codes != nullptr;  // compressed-tensors
  if (!divides) {
    QUIRE_ASSIGN_OR_RETURN(parts.codes, tensors.require("weight"));
  }
  QUIRE_RETURN_IF_ERROR(check_type_and_shape(*parts.codes, "U8", {shape.rows, shape.columns / 2}));
  QUIRE_ASSIGN_OR_RETURN(parts.scales, tensors.require("weight_scale"));
  const bool is_mx = parts.scales->type_name == "U8" || parts.scales->type_name == "F8_E8M0";
  QUIRE_RETURN_IF_ERROR(check_type_and_shape(*parts.scales,
                                             is_mx ? parts.scales->type_name : "F8_E4M3",
                                             {shape.rows, count_groups(shape.columns, group)}));
  if (!is_mx) {
    QUIRE_ASSIGN_OR_RETURN(const RawTensor* factor,
                           tensors.require(divides ? "weight_global_scale" : "weight_scale_2"));
    QUIRE_ASSIGN_OR_RETURN(parts.factor, read_factor(*factor));
    if (divides) parts.factor = 1.0f / parts.factor;
  }
  // The scales of activations are not needed, because activations are not quantized.
  for (const std::string_view suffix : {"input_global_scale", "input_scale"}) {
    static_cast<void>(tensors.find(suffix));
  }
  QuantSpec spec{.bits = 4,
                 .codebook = Codebook::kE2M1,
                 .group_size = group,
                 .scale_type = is_mx ? ScaleType::kE8M0 : ScaleType::kE4M3};
  if (!is_mx) {
    spec.super_scale_type = ScaleType::kF32;
    spec.super_group_size = shape.columns;
  }
  return std::unique_ptr<QuantMatrix>(
      std::make_unique<Fp4Matrix>(shape, parts, spec, tensors.used(), scheme.activations));
}

Result<std::unique_ptr<QuantMatrix>> open_mx_blocks_matrix(ModuleTensors& tensors,
                                                           const MatrixShape& shape) {
  constexpr int64_t kGroup = 32;
  if (shape.columns % kGroup != 0) {
    return invalid_argument("module '{}': expected a multiple of {} inputs for MXFP4, got {}",
                            tensors.module(), kGroup, shape.columns);
  }
  const int64_t groups = shape.columns / kGroup;
  Fp4Parts parts;
  QUIRE_ASSIGN_OR_RETURN(parts.codes,
                         tensors.require("blocks", "U8", {shape.rows, groups, kGroup / 2}));
  QUIRE_ASSIGN_OR_RETURN(parts.scales, tensors.require("scales", "U8", {shape.rows, groups}));
  const QuantSpec spec{
      .bits = 4, .codebook = Codebook::kE2M1, .group_size = kGroup, .scale_type = ScaleType::kE8M0};
  return std::unique_ptr<QuantMatrix>(
      std::make_unique<Fp4Matrix>(shape, parts, spec, tensors.used(), QuantActivations::kFloat));
}

}  // namespace quire
