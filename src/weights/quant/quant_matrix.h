// A QuantMatrix is one quantized matrix of a checkpoint, checked, and readable row by row in the
// format of the kernels (kernels/api/quant_spec.h). All formats on disk are read as a QuantMatrix,
// and nothing is rounded on the way.
//
//   QUIRE_ASSIGN_OR_RETURN(const auto matrix, open_quant_matrix(source, config, module, shape));
//   QuantRowBuffer rows(matrix->spec(), matrix->columns(), 128);
//   QUIRE_RETURN_IF_ERROR(matrix->read_rows(0, 128, rows.at(0)));
//   pack_quant_rows(stream, weight, rows.view(0, 128));
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/api/quant.h"
#include "weights/files/tensor_source.h"
#include "weights/quant/quant_config.h"
#include "weights/tensors/raw_tensor.h"

namespace quire {

struct MatrixShape {
  int64_t rows = 0;     // N, outputs
  int64_t columns = 0;  // K, inputs
};

// A QuantRowTarget is where read_rows() writes: the arrays of QuantRows, each at its first row to
// be written. An array is null if the spec has none.
struct QuantRowTarget {
  uint8_t* codes = nullptr;
  std::byte* scales = nullptr;
  std::byte* mins = nullptr;
  uint8_t* zeros = nullptr;
  std::byte* super_scales = nullptr;
  std::byte* super_mins = nullptr;
};

// A matrix is immutable and borrows the tensors of its source; any thread may use it.
class QuantMatrix {
 public:
  virtual ~QuantMatrix() = default;
  QuantMatrix(const QuantMatrix&) = delete;
  QuantMatrix& operator=(const QuantMatrix&) = delete;

  const QuantSpec& spec() const { return spec_; }
  int64_t rows() const { return shape_.rows; }
  int64_t columns() const { return shape_.columns; }
  // If spec().has_column_order, column j of what read_rows() writes is input order[j].
  std::span<const int32_t> column_order() const { return column_order_; }
  // Returns the kind of activations that the checkpoint was made for.
  QuantActivations activations() const { return activations_; }
  // Returns all tensors of the module: those that are read, and those that are not needed here.
  std::span<const RawTensor* const> tensors() const { return tensors_; }

  // Reads rows [first_row, first_row + num_rows). Returns kDataLoss for a scale that is not finite
  // or a code that stands for no number.
  virtual Status read_rows(int64_t first_row, int64_t num_rows,
                           const QuantRowTarget& out) const = 0;

 protected:
  explicit QuantMatrix(const MatrixShape& shape) : shape_(shape) {}

  MatrixShape shape_;
  QuantSpec spec_;
  std::vector<int32_t> column_order_;
  QuantActivations activations_ = QuantActivations::kFloat;
  std::vector<const RawTensor*> tensors_;
};

// A QuantRowBuffer is memory for a number of rows of one spec.
class QuantRowBuffer {
 public:
  QuantRowBuffer(const QuantSpec& spec, int64_t columns, int64_t max_rows);

  QuantRowTarget at(int64_t row);
  // Returns the first num_rows rows of the buffer, as rows [first_row, …) of the packed weight.
  QuantRows view(int64_t first_row, int64_t num_rows) const;

 private:
  struct Array {
    int64_t row_bytes = 0;  // 0 if the spec has no such array
    std::vector<std::byte> bytes = {};
    std::byte* at(int64_t row) { return row_bytes == 0 ? nullptr : bytes.data() + row * row_bytes; }
    const std::byte* data() const { return row_bytes == 0 ? nullptr : bytes.data(); }
  };
  Array codes_, scales_, mins_, zeros_, super_scales_, super_mins_;
};

// Returns the bytes of one element of a scale array, or 0 for kNone.
int64_t scale_bytes(ScaleType type);

// The offset that is added to signed bytes to make them codes.
inline constexpr int32_t kInt8Offset = 128;

// Returns how a quantized GGUF type ("Q4_K") is packed, or nullopt for a type that Quire does not
// read.
std::optional<QuantSpec> ggml_quant_spec(std::string_view type_name);

// Returns whether the tensors of `module` ("model.layers.0.mlp.up_proj") hold a quantized weight.
bool is_quantized_module(const TensorSource& source, std::string_view module);

// Opens the weight of a module for which is_quantized_module() is true. Returns kNotFound if a
// tensor that the scheme needs is missing; kInvalidArgument if a shape, type or size contradicts
// the model or the configuration; kUnimplemented, with its name, for a type that Quire does not
// read.
Result<std::unique_ptr<QuantMatrix>> open_quant_matrix(const TensorSource& source,
                                                       const QuantConfig& config,
                                                       std::string_view module,
                                                       const MatrixShape& shape);

}  // namespace quire
