#include "weights/quant/quant_matrix.h"

#include <fmt/format.h>

#include "weights/quant/quant_readers.h"

namespace quire {
namespace {

enum class Layout : uint8_t { kDense, kGguf, kWords, kPacked, kBytes, kMxBlocks };

Layout layout_of(const TensorSource& source, std::string_view module) {
  if (source.find(fmt::format("{}.weight_packed", module)) != nullptr) return Layout::kPacked;
  if (source.find(fmt::format("{}.qweight", module)) != nullptr) return Layout::kWords;
  if (source.find(fmt::format("{}.blocks", module)) != nullptr) return Layout::kMxBlocks;
  const RawTensor* weight = source.find(fmt::format("{}.weight", module));
  if (weight == nullptr) return Layout::kDense;
  if (is_quantized_ggml_type(weight->type_name)) return Layout::kGguf;
  const bool is_byte = weight->dtype == DType::kI8 || weight->dtype == DType::kU8 ||
                       weight->type_name.starts_with("F8_");
  return is_byte ? Layout::kBytes : Layout::kDense;
}

}  // namespace

bool is_quantized_module(const TensorSource& source, std::string_view module) {
  return layout_of(source, module) != Layout::kDense;
}

Result<std::unique_ptr<QuantMatrix>> open_quant_matrix(const TensorSource& source,
                                                       const QuantConfig& config,
                                                       std::string_view module,
                                                       const MatrixShape& shape) {
  const Layout layout = layout_of(source, module);
  QUIRE_CHECK(layout != Layout::kDense, "module '{}' is not quantized", module);
  ModuleTensors tensors(source, module);
  if (layout == Layout::kGguf) {
    QUIRE_ASSIGN_OR_RETURN(const RawTensor* weight, tensors.require("weight"));
    return open_gguf_matrix(*weight, shape);
  }
  if (layout == Layout::kMxBlocks) return open_mx_blocks_matrix(tensors, shape);
  const QuantScheme* scheme = config.scheme(module);
  if (scheme == nullptr) {
    return invalid_argument(
        "module '{}': its tensors are quantized, but quantization_config says nothing of it",
        module);
  }
  const QuantMethod method = config.method();
  if (layout == Layout::kWords && method == QuantMethod::kAwq) {
    return open_awq_matrix(tensors, *scheme, shape);
  }
  if (layout == Layout::kWords && method == QuantMethod::kGptq) {
    return open_gptq_matrix(tensors, *scheme, shape);
  }
  const bool is_fp4 = scheme->is_float && scheme->bits == 4;
  if (layout == Layout::kPacked && method == QuantMethod::kCompressedTensors) {
    return is_fp4 ? open_fp4_matrix(tensors, *scheme, shape)
                  : open_packed_matrix(tensors, *scheme, shape);
  }
  if (layout == Layout::kBytes && method == QuantMethod::kBitNet) {
    return open_bitnet_matrix(tensors, *scheme, shape);
  }
  if (layout == Layout::kBytes && method == QuantMethod::kFp8) {
    return is_fp4 ? open_fp4_matrix(tensors, *scheme, shape)
                  : open_byte_matrix(tensors, *scheme, shape);
  }
  if (layout == Layout::kBytes && method == QuantMethod::kCompressedTensors && !is_fp4) {
    return open_byte_matrix(tensors, *scheme, shape);
  }
  return invalid_argument("module '{}': its tensors are not those of {}", module,
                          config.description());
}

QuantRowBuffer::QuantRowBuffer(const QuantSpec& spec, int64_t columns, int64_t max_rows) {
  const int64_t groups = spec.num_groups(columns);
  const int64_t super_bytes = spec.num_super_groups(columns) * scale_bytes(spec.super_scale_type);
  const bool has_min = spec.zero_kind == ZeroKind::kMin;
  codes_.row_bytes = columns;
  scales_.row_bytes = groups * scale_bytes(spec.scale_type);
  mins_.row_bytes = has_min ? scales_.row_bytes : 0;
  zeros_.row_bytes = spec.zero_kind == ZeroKind::kInteger ? groups : 0;
  super_scales_.row_bytes = super_bytes;
  super_mins_.row_bytes = has_min ? super_bytes : 0;
  for (Array* array : {&codes_, &scales_, &mins_, &zeros_, &super_scales_, &super_mins_}) {
    array->bytes.resize(static_cast<size_t>(array->row_bytes * max_rows));
  }
}

QuantRowTarget QuantRowBuffer::at(int64_t row) {
  return {.codes = reinterpret_cast<uint8_t*>(codes_.at(row)),
          .scales = scales_.at(row),
          .mins = mins_.at(row),
          .zeros = reinterpret_cast<uint8_t*>(zeros_.at(row)),
          .super_scales = super_scales_.at(row),
          .super_mins = super_mins_.at(row)};
}

QuantRows QuantRowBuffer::view(int64_t first_row, int64_t num_rows) const {
  return {.codes = reinterpret_cast<const uint8_t*>(codes_.data()),
          .scales = scales_.data(),
          .mins = mins_.data(),
          .zeros = reinterpret_cast<const uint8_t*>(zeros_.data()),
          .super_scales = super_scales_.data(),
          .super_mins = super_mins_.data(),
          .first_row = first_row,
          .num_rows = num_rows};
}

}  // namespace quire
